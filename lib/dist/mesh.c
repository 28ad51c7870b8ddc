/* mesh.c: the ranks of a group as a grid with named axes. */
#include <dist/dist.h>

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct axis {
    char name[32];
    int64_t size;
    int coordinate;
    tn_group *group; /* kept */
} axis;

struct tn_mesh {
    tn_object object;
    int count;
    axis axis[TN_MAX_NDIM];
};

static void release(void *object)
{
    tn_mesh *mesh = object;
    for (int i = 0; i < mesh->count; i++)
        tn_drop(mesh->axis[i].group);
}

static const tn_object_class mesh_class = {.size = sizeof mesh_class,
                                           .name = "mesh",
                                           .bytes = sizeof(tn_mesh),
                                           .release = release};

TN_OPTIONS_TYPE(tn_mesh_new, "mesh_new", "sizes, names", TN_MESH_NEW_OPTIONS_LIST)

/* ---- names and sizes ------------------------------------------------------ */

static bool refuse_names(const char *names, const char *why)
{
    tn_error_refuse_argument(TN_ERR_ARGUMENT, "mesh_new", "names",
                             "names is \"%s\": %s", names, why);
    return false;
}

/* Reads "dp, tp". */
static bool read_names(tn_mesh *mesh, const char *names, int count)
{
    const char *at = names;
    for (int i = 0;; i++) {
        char *out = mesh->axis[i].name;
        size_t length = 0;
        at += strspn(at, " ");
        while (isalnum((unsigned char)at[length]) || at[length] == '_')
            length++;
        if (!length || length >= sizeof mesh->axis[i].name)
            return refuse_names(names, "expected names of at most 31 letters, "
                                       "digits and '_', with commas between them");
        memcpy(out, at, length);
        for (int k = 0; k < i; k++)
            if (strcmp(mesh->axis[k].name, out) == 0)
                return refuse_names(names, "a name occurs twice");
        at += length;
        at += strspn(at, " ");
        if (*at == 0) {
            mesh->count = i + 1;
            return mesh->count == count ||
                   refuse_names(names, mesh->count < count
                                           ? "there are fewer names than sizes"
                                           : "there are more names than sizes");
        }
        if (*at++ != ',')
            return refuse_names(names, "expected a comma between names");
        if (i + 1 == count)
            return refuse_names(names, "there are more names than sizes");
    }
}

static void write_sizes(char *text, size_t room, const tn_dims_list *sizes)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < sizes->count && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%" PRId64,
                                 i ? " x " : "", sizes->dim[i]);
}

/* Computes the size that is -1, and compares the product with the ranks. */
static bool read_sizes(tn_mesh *mesh, const tn_dims_list *sizes, int64_t ranks,
                       const char *name)
{
    int64_t product = 1;
    int open = -1;
    bool good = true;
    for (int i = 0; i < sizes->count && good; i++) {
        const int64_t size = sizes->dim[i];
        if (size == -1 && open < 0)
            open = i;
        else
            good = size > 0 && size <= ranks && (product *= size) <= ranks;
        mesh->axis[i].size = size;
    }
    good = good && (open < 0 ? product == ranks : ranks % product == 0);
    if (good && open >= 0)
        mesh->axis[open].size = ranks / product;
    if (good)
        return true;
    char text[256];
    write_sizes(text, sizeof text, sizes);
    tn_error_refuse_argument(TN_ERR_ARGUMENT, "mesh_new", "sizes",
                             "sizes are %s, but %s has %" PRId64 " ranks: their "
                             "product must be that number; one size may be -1",
                             text, name, ranks);
    return false;
}

/* ---- making it ------------------------------------------------------------ */

static bool split(tn_mesh *mesh, tn_group *group)
{
    const int rank = group->rank;
    int stride = group->count;
    for (int i = 0; i < mesh->count; i++) {
        axis *a = &mesh->axis[i];
        const int size = (int)a->size;
        stride /= size;
        a->coordinate = rank / stride % size;
        /* The ranks of the group have all other coordinates in common: their
         * number without this axis is the color. */
        const int color = rank - a->coordinate * stride;
        a->group = tn_keep(tn_group_split(group, color, .key = a->coordinate,
                                          .name = a->name));
        if (!a->group)
            return false;
    }
    return true;
}

tn_mesh *tn_mesh_new_with(tn_dims_list sizes, const char *names,
                          const tn_mesh_new_options *options)
{
    static const char call[] = "mesh_new";
    tn_mesh_new_options o;
    if (tn_options_take(tn_mesh_new_type(), &o, options) < 0)
        return NULL;
    if (!names || sizes.count < 1 || sizes.count > TN_MAX_NDIM) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, names ? "sizes" : "names",
                                 names ? "there are %d sizes: expected 1 to %d"
                                       : "names is NULL",
                                 sizes.count, TN_MAX_NDIM);
        return NULL;
    }
    tn_group *group = o.group ? o.group : tn_dist_world();
    if (!group || !tn__dist_group_check(group, call))
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_mesh *mesh = tn_object_new(&mesh_class, 0);
    if (mesh && (!read_names(mesh, names, sizes.count) ||
                 !read_sizes(mesh, &sizes, group->count, group->name) ||
                 !split(mesh, group)))
        mesh = NULL;
    return tn_scope_result(scope, mesh);
}

/* ---- axes ----------------------------------------------------------------- */

static const axis *find(const tn_mesh *mesh, const char *name, const char *call)
{
    if (!tn_object_check(mesh, &mesh_class, call, "mesh"))
        return NULL;
    char all[TN_MAX_NDIM * 34 + 1] = "";
    size_t used = 0;
    for (int i = 0; i < mesh->count; i++) {
        if (name && strcmp(mesh->axis[i].name, name) == 0)
            return &mesh->axis[i];
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s",
                                 i ? ", " : "", mesh->axis[i].name);
    }
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "axis",
                             "axis is %s%s%s: the mesh has %s",
                             name ? "\"" : "", name ? name : "NULL",
                             name ? "\"" : "", all);
    return NULL;
}

tn_group *tn_mesh_group(const tn_mesh *mesh, const char *axis_name)
{
    const axis *a = find(mesh, axis_name, "mesh_group");
    return a ? a->group : NULL;
}

int tn_mesh_coordinate(const tn_mesh *mesh, const char *axis_name)
{
    const axis *a = find(mesh, axis_name, "mesh_coordinate");
    return a ? a->coordinate : -1;
}

int tn_mesh_size(const tn_mesh *mesh, const char *axis_name)
{
    const axis *a = find(mesh, axis_name, "mesh_size");
    return a ? (int)a->size : 0;
}
