/* control_tree.c: the tree of the control plane. Up to TN__STAR ranks are children
 * of rank 0; more ranks have TN__FAN children each, so that no process has
 * thousands of connections. */
#include <dist/control.h>

int32_t tn__control_parent(int32_t rank, int32_t count)
{
    return rank == 0 ? -1 : count <= TN__STAR ? 0 : (rank - 1) / TN__FAN;
}

int32_t tn__control_branch(int32_t node, int32_t rank, int32_t count)
{
    int32_t parent;
    for (; rank > node; rank = parent)
        if ((parent = tn__control_parent(rank, count)) == node)
            return rank;
    return -1;
}
