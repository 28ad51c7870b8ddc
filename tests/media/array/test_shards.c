/* test_shards.c: weights in several safetensors files with an index. */
#include "arrays.h"

#include <dirent.h>
#include <tenon/safetensors_shards.h>

enum { COUNT = 5 };
static const char *const names[COUNT] = {"a", "b.weight", "größe", "d", "e"};

static void samples(tn_tensor **x)
{
    for (int i = 0; i < COUNT; i++)
        x[i] = tn_full(tn_dims(i + 1, 5), i, .dtype = TN_F32); /* 20, 40 ... 100 bytes */
}

static int file_count(void)
{
    DIR *dir = opendir(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void check_round_trip(void)
{
    static const struct {
        int64_t most;
        int files;
    } cases[] = {{1, 5}, {60, 4}, {100, 4}, {240, 2}, {300, 1}, {INT64_MAX, 1}};
    tn_tensor *x[COUNT];
    const char *stem = in_folder("model");
    samples(x);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int files = cases[i].files;
        is_int(tn_safetensors_shards_save(stem, names, x, COUNT,
                                          .max_shard_bytes = cases[i].most),
               TN_OK, "files of %lld bytes", (long long)cases[i].most);
        is_int(file_count(), files + (files > 1), "are %d", files);
        if (files == 1) {
            ok(tn_safetensors_has(
                   tn_safetensors_open(in_folder("model.safetensors")), "d"),
               "one file has no index");
            continue;
        }
        tn_safetensors_shards *s = tn_safetensors_shards_open(
            in_folder("model.safetensors.index.json"));
        is_int(tn_safetensors_shards_count(s), COUNT, "the index is opened");
        is_int(tn_safetensors_shards_file_count(s), files, "with its files");
        for (int k = 0; k < COUNT; k++) {
            is_str(tn_safetensors_shards_name(s, k), names[k], "a name");
            tn_tensor *y = tn_safetensors_shards_tensor(s, names[k]);
            ok(y && tn_item(tn_all(tn_eq(x[k], y))) == 1 &&
                   tn_safetensors_has(tn_safetensors_shards_of(s, names[k]),
                                      names[k]),
               "and its tensor");
        }
        int64_t of_files = 0;
        for (int k = 0; k < files; k++)
            of_files += tn_safetensors_count(tn_safetensors_shards_file(s, k));
        is_int(of_files, COUNT, "each tensor is in one file");
    }
    tn_safetensors_shards_save(stem, NULL, NULL, 0);
    is_int(file_count(), 1, "no tensors are one file");
    is_str(tn_error(), NULL, "no error is pending");
}

static void check_stale(void)
{
    static const char *const kept[] = {
        "model-extra.safetensors", "model-1-of-3.safetensors", "models",
        "model-00001-of-00009.safetensors.old", "other.safetensors"};
    tn_tensor *x[COUNT];
    samples(x);
    for (int i = 0; i < 5; i++)
        write_all(in_folder(kept[i]), "", 0);
    write_all(in_folder("model-00009-of-00009.safetensors"), "", 0);
    tn_safetensors_shards_save(in_folder("model"), names, x, COUNT,
                               .max_shard_bytes = 240);
    is_int(file_count(), 5 + 3, "only files of an older save are removed");
    for (int i = 0; i < 5; i++)
        unlink(in_folder(kept[i]));
}

static void check_mistakes(void)
{
    tn_tensor *x[COUNT];
    const char *stem = in_folder("model");
    samples(x);
    ok(tn_safetensors_shards_save(NULL, names, x, 1) < 0, "a NULL stem");
    refused(TN_ERR_ARGUMENT, "stem is NULL", "is rejected");
    ok(tn_safetensors_shards_save(in_folder(""), names, x, 1) < 0,
       "a stem that is a folder");
    refused(TN_ERR_ARGUMENT, "expected a path without .safetensors",
            "is rejected");
    ok(tn_safetensors_shards_save(stem, NULL, x, 1) < 0, "no names");
    refused(TN_ERR_ARGUMENT, "names is NULL", "are rejected");
    ok(tn_safetensors_shards_save(stem, names, NULL, 1) < 0, "no tensors");
    refused(TN_ERR_ARGUMENT, "tensors is NULL", "are rejected");
    ok(tn_safetensors_shards_save(stem, names, x, -1) < 0, "count -1");
    refused(TN_ERR_ARGUMENT, "count is -1", "is rejected");
    for (int64_t most = INT64_MIN; most < 1; most -= most ? most : -1) {
        ok(tn_safetensors_shards_save(stem, names, x, 1,
                                      .max_shard_bytes = most) < 0,
           "%lld bytes", (long long)most);
        refused(TN_ERR_ARGUMENT, "max_shard_bytes", "are rejected");
    }
    static const char *const bad[][2] = {
        {"a", NULL}, {"a", "\xff"}, {"a", "a"}, {"a", "__metadata__"}};
    static const char *const parts[] = {"names[1] is NULL", "not valid UTF-8",
                                        "given twice", "reserved"};
    for (int i = 0; i < 4; i++) {
        ok(tn_safetensors_shards_save(stem, bad[i], x, 2) < 0, "%s", parts[i]);
        refused(TN_ERR_ARGUMENT, parts[i], "is rejected");
    }
    tn_tensor *missing[] = {x[0], NULL};
    ok(tn_safetensors_shards_save(stem, names, missing, 2) < 0, "no tensor");
    refused(TN_ERR_ARGUMENT, "tensors is NULL", "is rejected");
    ok(tn_safetensors_shards_save(in_folder("no/model"), names, x, 1) < 0,
       "a folder that is not there");
    refused(TN_ERR_IO, "safetensors_shards_save: ", "is rejected");
    ok(!tn_safetensors_shards_open(NULL), "a NULL path");
    refused(TN_ERR_ARGUMENT, "path is NULL", "is rejected");
    ok(!tn_safetensors_shards_open(in_folder("none")), "no file");
    refused(TN_ERR_IO, "No such file", "is rejected");

    tn_safetensors_shards_save(stem, names, x, COUNT, .max_shard_bytes = 100);
    tn_safetensors_shards *s =
        tn_safetensors_shards_open(in_folder("model.safetensors.index.json"));
    ok(!tn_safetensors_shards_tensor(s, "z"), "a missing tensor");
    refused(TN_ERR_ARGUMENT, "has no tensor \"z\" among 5", "is rejected");
    ok(!tn_safetensors_shards_tensor(s, NULL), "a NULL name");
    refused(TN_ERR_ARGUMENT, "name is NULL", "is rejected");
    ok(!tn_safetensors_shards_tensor(NULL, "a"), "NULL");
    refused(TN_ERR_ARGUMENT, "shards is NULL", "is rejected");
    ok(!tn_safetensors_shards_tensor((tn_safetensors_shards *)x[0], "a"),
       "a tensor as an index");
    refused(TN_ERR_ARGUMENT, "is a tensor", "is rejected");
    ok(!tn_safetensors_shards_count(NULL) &&
           !tn_safetensors_shards_name(NULL, 0) &&
           !tn_safetensors_shards_name(s, -1) &&
           !tn_safetensors_shards_name(s, COUNT) &&
           !tn_safetensors_shards_of(NULL, "a") &&
           !tn_safetensors_shards_of(s, NULL) &&
           !tn_safetensors_shards_of(s, "z") &&
           !tn_safetensors_shards_file_count(NULL) &&
           !tn_safetensors_shards_file(NULL, 0) &&
           !tn_safetensors_shards_file(s, -1) &&
           !tn_safetensors_shards_file(s, 99) && !tn_error(),
       "attributes of NULL are empty");
}

static void check_bad_indexes(void)
{
    static const char *const cases[][2] = {
        {"", ":1:1: "},
        {"[1]", "weight_map is missing"},
        {"{\"weight_map\": 3}", "weight_map is missing"},
        {"{\"weight_map\": {\"a\": 3}}", "not the name of a file"},
        {"{\"weight_map\": {\"a\": \"../model.safetensors\"}}",
         "not in the folder"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "not in the folder"},
        {"{\"weight_map\": {\"a\": \"\"}}", "not in the folder"},
        {"{\"weight_map\": {\"a\\u0000b\": \"x\"}}", "not the name of a file"},
        {"{\"weight_map\": {\"z\": \"model-00001-of-00004.safetensors\"}}",
         "\"z\" is not in model-00001-of-00004.safetensors"},
        {"{\"weight_map\": {\"a\": \"model-00001-of-00004.safetensors\",\n"
         "\"a\": \"model-00001-of-00004.safetensors\"}}", ""},
    };
    const char *path = in_folder("model.safetensors.index.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_all(path, cases[i][0], strlen(cases[i][0]));
        ok(!tn_safetensors_shards_open(path), "%s", cases[i][0]);
        refused(TN_ERR_FORMAT, cases[i][1], "is rejected");
    }
    static const char absent[] = "{\"weight_map\": {\"a\": \"none\"}}";
    write_all(path, absent, strlen(absent));
    ok(!tn_safetensors_shards_open(path), "a file that is not there");
    refused(TN_ERR_IO, "safetensors_shards_open: ", "is rejected");
    write_all(in_folder("none"), "junk", 4);
    ok(!tn_safetensors_shards_open(path), "a file of four bytes");
    refused(TN_ERR_FORMAT, "safetensors_shards_open: ", "is rejected");
}

int main(void)
{
    plan_later();
    make_folder();
    check_round_trip();
    check_stale();
    check_mistakes();
    check_bad_indexes();
    return done_testing();
}
