/* control_pass.c: passes messages up and down the tree of ranks. */
#include <dist/control.h>

tn__link *tn__link_to(tn__control *c, int32_t rank)
{
    for (int i = 0; i < c->links; i++)
        if (c->link[i]->rank == rank)
            return c->link[i];
    return NULL;
}

void tn__control_up(tn__control *c, tn__wire *m)
{
    tn__link *parent;
    if (c->root)
        c->root_take(c, m);
    else if ((parent = tn__link_to(c, tn__control_parent(c->rank, c->count))))
        tn__link_send(c, parent, m);
}

void tn__control_down(tn__control *c, const tn__wire *m)
{
    const int32_t branch = m->to < 0 || m->to == c->rank
                               ? -1
                               : tn__control_branch(c->rank, m->to, c->count);
    for (int i = 0; i < c->links && m->to != c->rank; i++) {
        tn__link *link = c->link[i];
        if (link->rank > c->rank && (m->to < 0 || link->rank == branch))
            tn__link_send(c, link, m);
    }
    if (m->to < 0 || m->to == c->rank)
        c->take(c, m);
}
