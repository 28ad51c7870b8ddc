/* control_root.c: what rank 0 does for all: it compares the calls that ranks
 * announce, shows a rank where all others are, and decides with which message
 * the job ends. */
#include <dist/control.h>
#include <dist/dist.h>

#include <stdlib.h>
#include <string.h>

enum {
    DIFFER_MS = 300, /* ranks that are still on their way are waited for, so that
                        the message names them, too */
    RECALL_MS = 50,  /* then ranks that have not announced a call are asked */
    QUERY_MS = 200,  /* how long ranks may take to answer a look */
    LOOK_MS = 700    /* only one rank looks at a time: a job has one message */
};
static const uint64_t MS = 1000000;

/* A call that some ranks of a group have announced. */
typedef struct agreement {
    struct agreement *next;
    uint64_t group, sequence, check;
    uint64_t size, there;  /* ranks */
    uint64_t since_ns, odd_ns;
    bool odd, told, recalled;
    unsigned char here[];  /* of the job's ranks */
} agreement;

struct tn__root {
    int32_t count;
    tn_comm_peer *row;     /* owned: what was heard last from each rank */
    uint64_t *row_group, *heard_ns; /* owned */
    bool *answered;        /* owned */
    int32_t looker;        /* -1: nobody looks */
    uint64_t look_ns;
    bool shown;            /* the looker has its rows */
    agreement *first;
};

tn__root *tn__root_new(int32_t count)
{
    tn__root *root = calloc(1, sizeof *root);
    if (!root)
        return NULL;
    root->count = count;
    root->looker = -1;
    root->row = calloc((size_t)count, sizeof *root->row);
    root->row_group = calloc((size_t)count, sizeof *root->row_group);
    root->heard_ns = calloc((size_t)count, sizeof *root->heard_ns);
    root->answered = calloc((size_t)count, sizeof *root->answered);
    if (root->row && root->row_group && root->heard_ns && root->answered) {
        for (int32_t r = 0; r < count; r++)
            root->heard_ns[r] = tn__dist_now();
        return root;
    }
    tn__root_free(root);
    return NULL;
}

void tn__root_free(tn__root *root)
{
    if (!root)
        return;
    for (agreement *a = root->first, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    free(root->row);
    free(root->row_group);
    free(root->heard_ns);
    free(root->answered);
    free(root);
}

/* ---- agreements ----------------------------------------------------------- */

static agreement *agreement_of(tn__root *root, const tn__wire *m)
{
    for (agreement *a = root->first; a; a = a->next)
        if (a->group == m->group && a->sequence == m->sequence)
            return a;
    agreement *a = calloc(1, sizeof *a + (size_t)root->count);
    if (!a)
        return NULL; /* the ranks' timeout finds it */
    a->group = m->group;
    a->sequence = m->sequence;
    a->check = m->check;
    a->size = m->value;
    a->since_ns = tn__dist_now();
    a->next = root->first;
    root->first = a;
    return a;
}

static void tell(tn__control *c, const agreement *a, uint32_t type)
{
    const tn__wire m = {.type = type, .rank = c->rank, .to = -1,
                        .group = a->group, .sequence = a->sequence};
    tn__control_down(c, &m);
}

static void drop(tn__root *root, agreement *a)
{
    for (agreement **at = &root->first; *at; at = &(*at)->next)
        if (*at == a) {
            *at = a->next;
            break;
        }
    free(a);
}

static void take_announcement(tn__control *c, const tn__wire *m)
{
    agreement *a = agreement_of(c->root, m);
    if (!a || a->here[m->rank])
        return;
    a->here[m->rank] = 1;
    a->there++;
    if ((a->check != m->check || a->size != m->value) && !a->odd) {
        a->odd = true;
        a->odd_ns = tn__dist_now();
        tn__control_wake(c);
    }
    if (a->there == 1)
        tn__control_wake(c);
    if (a->there == a->size && !a->odd) {
        tell(c, a, TN__GO);
        drop(c->root, a);
    } else if (m->state && !a->recalled) {
        a->recalled = true;
        tell(c, a, TN__RECALL); /* which may complete it */
    }
}

/* Returns when the agreement wants to be looked at again. */
static uint64_t tick_agreement(tn__control *c, agreement *a, uint64_t now)
{
    if (a->odd && !a->told &&
        (a->there == a->size || now - a->odd_ns >= DIFFER_MS * MS)) {
        a->told = true;
        tell(c, a, TN__DIFFER);
    }
    if (!a->recalled && now - a->since_ns >= RECALL_MS * MS) {
        a->recalled = true;
        tell(c, a, TN__RECALL);
        return now; /* the list may have changed */
    }
    return a->odd && !a->told ? a->odd_ns + DIFFER_MS * MS
           : !a->recalled     ? a->since_ns + RECALL_MS * MS
                              : UINT64_MAX;
}

/* ---- looks ---------------------------------------------------------------- */

static void take_look(tn__control *c, const tn__wire *m)
{
    tn__root *root = c->root;
    if (root->looker >= 0)
        return; /* it gets the verdict of the one that looks */
    root->looker = m->rank;
    root->look_ns = tn__dist_now();
    root->shown = false;
    memset(root->answered, 0, (size_t)root->count * sizeof *root->answered);
    const tn__wire query = {.type = TN__QUERY, .rank = m->rank, .to = -1,
                            .group = m->group};
    tn__control_down(c, &query);
    tn__control_wake(c);
}

static bool all_answered(const tn__control *c)
{
    for (int32_t r = 0; r < c->count; r++)
        if (c->life[r] == TN_COMM_ALIVE && !c->root->answered[r])
            return false;
    return true;
}

static void show_rows(tn__control *c)
{
    tn__root *root = c->root;
    const uint64_t now = tn__dist_now();
    root->shown = true;
    tn__wire m = {.to = root->looker};
    for (int32_t r = 0; r < c->count; r++) {
        const tn_comm_peer *row = &root->row[r];
        m.type = TN__ROW;
        m.rank = r;
        m.state = c->life[r];
        m.silent_ns = r == c->rank ? 0 : now - root->heard_ns[r];
        m.group = root->row_group[r];
        m.sequence = row->sequence;
        m.check = row->check;
        m.record_bytes = row->record_bytes;
        memcpy(m.record, row->record, sizeof m.record);
        m.position_bytes = row->position_bytes;
        memcpy(m.position, row->position, sizeof m.position);
        tn__control_down(c, &m);
    }
    m.type = TN__LOOKED;
    m.record_bytes = m.position_bytes = 0;
    tn__control_down(c, &m);
}

static void take_row(tn__root *root, const tn__wire *m)
{
    tn_comm_peer *row = &root->row[m->rank];
    root->row_group[m->rank] = m->group;
    row->sequence = m->sequence + (m->type == TN__ANNOUNCE);
    row->check = m->check;
    row->record_bytes = m->record_bytes;
    memcpy(row->record, m->record, sizeof row->record);
    row->position_bytes = m->position_bytes;
    memcpy(row->position, m->position, sizeof row->position);
    if (m->type == TN__ROW)
        root->answered[m->rank] = true;
}

/* ---- all ------------------------------------------------------------------ */

void tn__root_take(tn__control *c, const tn__wire *m)
{
    tn__root *root = c->root;
    tn__wire down = *m;
    down.to = -1;
    if (m->type != TN__GONE)
        root->heard_ns[m->rank] = tn__dist_now();
    switch (m->type) {
    case TN__BEAT:
    case TN__ROW:
        take_row(root, m);
        if (root->looker >= 0 && !root->shown && all_answered(c))
            show_rows(c);
        break;
    case TN__ANNOUNCE:
        take_row(root, m);
        if (!c->verdict)
            take_announcement(c, m);
        break;
    case TN__LOOK:
        take_look(c, m);
        break;
    case TN__ABORT:
        down.type = TN__VERDICT;
        if (!c->verdict)
            tn__control_down(c, &down);
        break;
    case TN__GONE:
    case TN__LEAVE:
    case TN__BYE:
        tn__control_down(c, &down);
        break;
    default:
        break;
    }
}

uint64_t tn__root_tick(tn__control *c)
{
    tn__root *root = c->root;
    const uint64_t now = tn__dist_now();
    uint64_t due = UINT64_MAX;
    if (root->looker >= 0 && !root->shown && now - root->look_ns >= QUERY_MS * MS)
        show_rows(c);
    if (root->looker >= 0 && now - root->look_ns >= LOOK_MS * MS)
        root->looker = -1;
    if (root->looker >= 0)
        due = root->look_ns + (root->shown ? LOOK_MS : QUERY_MS) * MS;
    for (agreement *a = root->first; a; a = a->next) {
        uint64_t at = tick_agreement(c, a, now);
        due = at < due ? at : due;
        if (at == now)
            break; /* and again at once */
    }
    return due;
}
