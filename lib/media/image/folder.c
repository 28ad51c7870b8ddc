/* folder.c: lists a folder of images with a folder for each class, and reads
 * them as a data set. */
#include <tenon/image.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <tenon/ops.h>

#include <media/image/image_tensor.h>

/* Folders below a class. A symbolic link to a folder above would have no end.
 * */
#define DEPTH_LIMIT 32

typedef struct names {
    char **name; /* owned */
    int64_t count, room;
} names;

struct tn_image_folder {
    tn_object object;
    names class_names, paths;
    int64_t *label; /* of each path; owned */
};

static bool add(names *list, char *name)
{
    if (name && list->count == list->room) {
        const int64_t room = list->room * 2 + 16;
        char **more = realloc(list->name, (size_t)room * sizeof *more);
        if (more) {
            list->name = more;
            list->room = room;
        }
    }
    if (!name || list->count == list->room) {
        free(name);
        tn_error_set(TN_ERR_MEMORY, "image_folder_open: out of memory");
        return false;
    }
    list->name[list->count++] = name;
    return true;
}

static void free_names(names *list)
{
    for (int64_t i = 0; i < list->count; i++)
        free(list->name[i]);
    free(list->name);
    *list = (names){0};
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(names *list, int64_t from)
{
    if (list->count > from)
        qsort(list->name + from, (size_t)(list->count - from),
              sizeof *list->name, compare);
}

static char *join(const char *folder, const char *name)
{
    const size_t a = strlen(folder), b = strlen(name);
    const bool slash = a && folder[a - 1] == '/';
    char *path = malloc(a + b + 2);
    if (!path)
        return NULL;
    memcpy(path, folder, a);
    path[a] = '/';
    memcpy(path + a + !slash, name, b + 1);
    return path;
}

static bool refuse(tn_status code, const char *path, const char *why)
{
    tn_error_refuse_argument(code, "image_folder_open", "path", "%s: %s", path,
                             why);
    return false;
}

/* Reports the system's error about a path. */
static bool refuse_errno(const char *path)
{
    const int number = errno;
    return refuse(number == ENOMEM ? TN_ERR_MEMORY : TN_ERR_IO, path,
                  strerror(number));
}

static bool is_image(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot &&
           (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
            strcasecmp(dot, ".jpeg") == 0);
}

/* Lists the paths of a folder's entries: its folders, and its images if
 * `images` is not NULL. */
static bool list_folder(const char *path, names *folders, names *images)
{
    DIR *dir = opendir(path);
    if (!dir)
        return refuse_errno(path);
    bool good = true;
    struct dirent *entry;
    errno = 0;
    while (good && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        char *full = join(path, entry->d_name);
        struct stat s;
        if (full && stat(full, &s) < 0)
            good = refuse_errno(full);
        else if (full && S_ISDIR(s.st_mode)) {
            good = add(folders, full);
            full = NULL;
        } else if (full && images && is_image(entry->d_name)) {
            good = add(images, full);
            full = NULL;
        } else if (!full)
            good = add(folders, NULL);
        free(full);
        errno = 0;
    }
    if (good && errno)
        good = refuse_errno(path);
    closedir(dir);
    return good;
}

static bool list_images(const char *path, names *images, int depth)
{
    names below = {0};
    bool good =
        depth <= DEPTH_LIMIT
            ? list_folder(path, &below, images)
            : refuse(TN_ERR_FORMAT, path, "folders are nested deeper than 32");
    for (int64_t i = 0; good && i < below.count; i++)
        good = list_images(below.name[i], images, depth + 1);
    free_names(&below);
    return good;
}

/* Lists the images of the class with index i, whose path is given. */
static bool list_class(tn_image_folder *self, int64_t i, const char *path)
{
    const int64_t from = self->paths.count;
    if (!list_images(path, &self->paths, 1))
        return false;
    if (self->paths.count == from)
        return refuse(TN_ERR_FORMAT, path,
                      "the class has no image (.png, .jpg, .jpeg)");
    sort(&self->paths, from);
    int64_t *label =
        realloc(self->label, (size_t)self->paths.count * sizeof *label);
    if (!label)
        return tn_error_set(TN_ERR_MEMORY,
                            "image_folder_open: out of memory") == TN_OK;
    self->label = label;
    for (int64_t k = from; k < self->paths.count; k++)
        label[k] = i;
    return true;
}

static bool list_all(tn_image_folder *self, const char *path)
{
    if (!list_folder(path, &self->class_names, NULL))
        return false;
    if (self->class_names.count == 0)
        return refuse(TN_ERR_FORMAT, path,
                      "the folder has no subfolders; expected one for each "
                      "class");
    sort(&self->class_names, 0);
    for (int64_t i = 0; i < self->class_names.count; i++) {
        char *full = self->class_names.name[i];
        if (!list_class(self, i, full))
            return false;
        const char *slash = strrchr(full, '/');
        memmove(full, slash + 1, strlen(slash));
    }
    return true;
}

static void release(void *object)
{
    tn_image_folder *self = object;
    free_names(&self->class_names);
    free_names(&self->paths);
    free(self->label);
}

static const tn_object_class folder_class = {
    .size = sizeof(tn_object_class),
    .name = "image folder",
    .bytes = sizeof(tn_image_folder),
    .release = release,
};

tn_image_folder *tn_image_folder_open(const char *path)
{
    if (!path)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "image_folder_open",
                                        "path", "path is NULL"),
               NULL;
    tn_scope *scope = tn_scope_open();
    tn_image_folder *self = tn_object_new(&folder_class, 0);
    if (self && !list_all(self, path))
        self = NULL;
    return tn_scope_result(scope, self);
}

/* ---- attributes --------------------------------------------------------- */

static bool is_folder(const tn_image_folder *folder, const char *call)
{
    return folder && tn_object_check(folder, &folder_class, call, "folder");
}

int64_t tn_image_folder_count(const tn_image_folder *folder)
{
    return is_folder(folder, "image_folder_count") ? folder->paths.count : 0;
}

int64_t tn_image_folder_class_count(const tn_image_folder *folder)
{
    return is_folder(folder, "image_folder_class_count")
               ? folder->class_names.count
               : 0;
}

static const char *name_at(const names *list, int64_t i)
{
    return i >= 0 && i < list->count ? list->name[i] : NULL;
}

const char *tn_image_folder_class_name(const tn_image_folder *folder, int64_t i)
{
    return is_folder(folder, "image_folder_class_name")
               ? name_at(&folder->class_names, i)
               : NULL;
}

const char *tn_image_folder_path(const tn_image_folder *folder, int64_t i)
{
    return is_folder(folder, "image_folder_path") ? name_at(&folder->paths, i)
                                                  : NULL;
}

int64_t tn_image_folder_label(const tn_image_folder *folder, int64_t i)
{
    return is_folder(folder, "image_folder_label") && i >= 0 &&
                   i < folder->paths.count
               ? folder->label[i]
               : -1;
}

/* ---- the data set ------------------------------------------------------- */

typedef struct set {
    tn_image_folder *folder; /* kept */
    tn_dataset_from_image_folder_options o;
} set;

static int get(void *context, int64_t i, tn_tensor **fields)
{
    const set *self = context;
    const char *path = self->folder->paths.name[i];
    tn_tensor *image = tn_image_load(path, .channels = self->o.channels,
                                     .min_side = self->o.min_side);
    if (image && self->o.transform) {
        image = self->o.transform(image, self->o.context);
        if (!image)
            tn_error_prefix("%s", path);
    }
    if (!image)
        return tn_error()
                   ? tn_error_code()
                   : tn_error_set(TN_ERR_ARGUMENT,
                                  "%s: the transform returned NULL", path);
    fields[0] = image;
    fields[1] = tn_full(TN_SCALAR, (double)self->folder->label[i],
                        .dtype = TN_I64, .device = tn__image_device());
    return fields[1] ? 2 : tn_error_code();
}

static void release_set(void *context)
{
    set *self = context;
    tn_drop(self->folder);
    free(self);
}

TN_OPTIONS_TYPE(tn_dataset_from_image_folder, "dataset_from_image_folder",
                "folder", TN_DATASET_FROM_IMAGE_FOLDER_OPTIONS_LIST)
tn_dataset *tn_dataset_from_image_folder_with(
    tn_image_folder *folder,
    const tn_dataset_from_image_folder_options *options)
{
    const char *call = "dataset_from_image_folder";
    tn_dataset_from_image_folder_options o;
    if (tn_options_take(tn_dataset_from_image_folder_type(), &o, options) < 0 ||
        !tn_object_check(folder, &folder_class, call, "folder") ||
        !tn__check_range(call, "channels", o.channels, 0, 4) ||
        !tn__check_range(call, "min_side", (double)o.min_side, 0, 0x1p53))
        return NULL;
    const tn_option_need need[] = {
        {"context", o.transform != NULL, "without transform", "give one"}};
    if (tn_options_check_needs(tn_dataset_from_image_folder_type(), &o, need,
                               1) < 0)
        return NULL;
    set *self = malloc(sizeof *self);
    if (!self)
        return tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call), NULL;
    *self = (set){tn_keep(folder), o};
    const tn_dataset_class type = {.size = sizeof type,
                                   .count = folder->paths.count,
                                   .get = get,
                                   .release = release_set};
    tn_dataset *made = tn_dataset_new(&type, self);
    if (!made)
        release_set(self);
    return made;
}
