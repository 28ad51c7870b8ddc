/* test_npz.c: .npz files in both directions, mistakes, and hostile archives. */
#include "arrays.h"

#include <tenon/npy.h>

static const char *const names[] = {"x", "folder/y", "größe", "empty"};
enum { COUNT = 4 };

static void samples(tn_tensor **out)
{
    out[0] = tn_reshape(tn_arange(0, 2000, 1), tn_dims(50, 40));
    out[1] = tn_tensor_from_array(&(int64_t){-7}, TN_I64, TN_SCALAR);
    out[2] = tn_tensor_from_array((bool[]){1, 0, 1}, TN_BOOL, tn_dims(3));
    out[3] = tn_zeros(tn_dims(0, 2));
}

static void check_round_trip(bool compressed)
{
    tn_tensor *x[COUNT];
    const char *path = in_folder("x.npz");
    samples(x);
    is_int(tn_npz_save(path, names, x, COUNT, .compressed = compressed), TN_OK,
           "an archive is saved");
    size_t bytes;
    char *data = read_all(path, &bytes);
    ok(compressed == (bytes < 8000), "compressed: %zu bytes", bytes);
    tn_npz *files[] = {tn_npz_open(path), tn_npz_open_memory(data, bytes)};
    free(data);
    for (int f = 0; f < 2; f++) {
        is_int(tn_npz_count(files[f]), COUNT, "it has its arrays");
        for (int i = 0; i < COUNT; i++) {
            is_str(tn_npz_name(files[f], i), names[i], "name %d", i);
            tn_tensor *y = tn_npz_tensor(files[f], names[i]);
            ok(tn_npz_has(files[f], names[i]) && y &&
                   tn_tensor_dtype(y) == tn_tensor_dtype(x[i]) &&
                   tn_tensor_ndim(y) == tn_tensor_ndim(x[i]) &&
                   (!tn_tensor_numel(y) ||
                    tn_item(tn_all(tn_eq(x[i], y))) == 1),
               "array %s", names[i]);
        }
    }
    tn_npz_save(path, NULL, NULL, 0);
    is_int(tn_npz_count(tn_npz_open(path)), 0, "an archive may be empty");
    tn_tensor *raw = tn_to_dtype(x[0], TN_BF16);
    tn_npz_save(path, names, &raw, 1, .compressed = compressed);
    tn_npz *file = tn_npz_open(path);
    ok(!tn_npz_tensor(file, "x"), "raw bytes");
    refused(TN_ERR_DTYPE, ".view = TN_BF16", "need a view");
    ok(tn_tensor_dtype(tn_npz_tensor(file, "x", .view = TN_BF16)) == TN_BF16,
       "which gives the dtype");
    tn_npz_save(path, names, x, 1);
    ok(tn_npz_tensor(file, "x", .view = TN_BF16), "an archive that was "
       "replaced can still be read");
    tn_npz_save(path, names, x, 1);
    file = tn_npz_open(path);
    FILE *changed = fopen(path, "ab");
    fputc(0, changed);
    fclose(changed);
    ok(!tn_npz_tensor(file, "x"), "an archive that was written to");
    refused(TN_ERR_IO, "changed after it was opened", "is rejected");
    is_str(tn_error(), NULL, "no error is pending");
}

static void check_mistakes(void)
{
    tn_tensor *x[COUNT];
    const char *path = in_folder("m.npz");
    samples(x);
    tn_npz_save(path, names, x, COUNT);
    tn_npz *file = tn_npz_open(path);
    ok(!tn_npz_open(NULL), "a NULL path");
    refused(TN_ERR_ARGUMENT, "path is NULL", "is rejected");
    ok(!tn_npz_open_memory(NULL, 9), "NULL data");
    refused(TN_ERR_ARGUMENT, "data is NULL", "is rejected");
    ok(!tn_npz_open(in_folder("none.npz")), "a missing file");
    refused(TN_ERR_IO, "No such file", "is rejected");
    ok(!tn_npz_open(folder), "a folder");
    refused(TN_ERR_IO, "not a regular file", "is rejected");
    ok(!tn_npz_tensor(file, "z"), "a missing array");
    refused(TN_ERR_ARGUMENT, "has no array \"z\" among 4", "is rejected");
    ok(!tn_npz_tensor(file, NULL), "a NULL name");
    refused(TN_ERR_ARGUMENT, "name is NULL", "is rejected");
    ok(!tn_npz_tensor(NULL, "x"), "a NULL file");
    refused(TN_ERR_ARGUMENT, "file is NULL", "is rejected");
    ok(!tn_npz_tensor((tn_npz *)x[0], "x"), "a tensor as a file");
    refused(TN_ERR_ARGUMENT, "is a tensor, not a npz file", "is rejected");
    ok(tn_npz_count(NULL) == 0 && !tn_npz_name(NULL, 0) &&
           !tn_npz_name(file, -1) && !tn_npz_name(file, COUNT) &&
           !tn_npz_has(NULL, "x") && !tn_npz_has(file, NULL) &&
           !tn_npz_has(file, "") && !tn_error(),
       "attributes of NULL are empty");
    ok(tn_npz_save(NULL, names, x, COUNT) < 0, "saving to NULL");
    refused(TN_ERR_ARGUMENT, "path is NULL", "is rejected");
    ok(tn_npz_save(path, NULL, x, COUNT) < 0, "no names");
    refused(TN_ERR_ARGUMENT, "names is NULL", "is rejected");
    ok(tn_npz_save(path, names, NULL, COUNT) < 0, "no tensors");
    refused(TN_ERR_ARGUMENT, "tensors is NULL", "is rejected");
    ok(tn_npz_save(path, names, x, -1) < 0, "a negative count");
    refused(TN_ERR_ARGUMENT, "count is -1", "is rejected");
    static const char *const bad[][2] = {
        {"a", NULL}, {"a", ""}, {"a", "a"}, {"a", "\xff"}};
    static const char *const parts[] = {"names[1] is NULL", "names[1] is empty",
                                        "given twice", "not valid UTF-8"};
    for (int i = 0; i < 4; i++) {
        ok(tn_npz_save(path, bad[i], x, 2) < 0, "%s", parts[i]);
        refused(TN_ERR_ARGUMENT, parts[i], "is rejected");
    }
    tn_tensor *missing[] = {x[0], NULL};
    ok(tn_npz_save(path, names, missing, 2) < 0, "a NULL tensor");
    refused(TN_ERR_ARGUMENT, "tensors is NULL", "is rejected");
    char *long_name = calloc(1, 70000);
    memset(long_name, 'a', 69999);
    ok(tn_npz_save(path, (const char *const *)&long_name, x, 1) < 0,
       "a name of 70000 bytes");
    refused(TN_ERR_ARGUMENT, "allows 65535", "is rejected");
    free(long_name);
    is_int(tn_npz_count(tn_npz_open(path)), COUNT, "the old file is there");
}

/* ---- hostile archives ----------------------------------------------------- */

/* Opens an archive in memory, reads past which AddressSanitizer detects, and
 * reads all of it. Returns whether something was rejected. */
static bool rejected(const char *data, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    memcpy(copy, data, bytes);
    bool bad = false;
    TN_SCOPE(scope)
    {
        tn_npz *file = tn_npz_open_memory(copy, bytes);
        free(copy);
        bad = !file;
        for (int i = 0; i < tn_npz_count(file); i++) {
            bad |= !tn_npz_tensor(file, tn_npz_name(file, i));
            if (bad != (tn_error() != NULL))
                ok(false, "a failure has a message");
        }
    }
    tn_error_clear();
    return bad;
}

static void check_damage(const char *name)
{
    size_t bytes;
    char *data = read_all(golden(name), &bytes);
    int accepted = 0, changed = 0;
    for (size_t n = 0; n < bytes; n++)
        accepted += !rejected(data, n);
    is_int(accepted, 0, "%s: all %zu truncations are rejected", name, bytes);
    for (size_t n = 0; n < bytes; n++) {
        data[n] ^= 0x55;
        changed += rejected(data, bytes);
        data[n] ^= 0x55;
    }
    ok(changed > (int)bytes / 2, "%s: %d of %zu changes are rejected", name,
       changed, bytes);
    free(data);
}

static char *find(char *data, size_t bytes, const char *what, size_t length)
{
    return memmem(data, bytes, what, length);
}

static void check_hostile(void)
{
    size_t bytes;
    char *data = read_all(golden("npz/stored.npz"), &bytes);
    char *entry = find(data, bytes, "PK\1\2", 4);
    char *second = entry + 46 + strlen("x.npy");
    ok(memcmp(second, "PK\1\2", 4) == 0, "the second entry is found");

    char saved[46];
    memcpy(saved, second, sizeof saved);
    memcpy(second + 42, entry + 42, 4);
    ok(!tn_npz_open_memory(data, bytes), "two entries for one member");
    refused(TN_ERR_FORMAT, "members overlap", "are rejected");
    memcpy(second, saved, sizeof saved);

    entry[8] |= 1;
    ok(!tn_npz_open_memory(data, bytes), "an encrypted member");
    refused(TN_ERR_UNSUPPORTED, "is encrypted", "is rejected");
    entry[8] ^= 1;

    entry[10] = 93;
    ok(!tn_npz_open_memory(data, bytes), "Zstandard");
    refused(TN_ERR_UNSUPPORTED, "method 93 (Zstandard)", "is rejected");
    entry[10] = 0;

    entry[16] ^= 1;
    tn_npz *file = tn_npz_open_memory(data, bytes);
    ok(file && !tn_npz_tensor(file, "x"), "a wrong CRC");
    refused(TN_ERR_FORMAT, "its CRC differs", "is rejected");
    entry[16] ^= 1;

    memset(entry + 20, 0xff, 8); /* sizes of zip64, without its field */
    ok(!tn_npz_open_memory(data, bytes), "sizes without a zip64 field");
    refused(TN_ERR_FORMAT, "not a valid zip archive", "are rejected");
    free(data);

    data = read_all(golden("npz/stored.npz"), &bytes);
    entry = find(data, bytes, "PK\1\2", 4);
    data[30] = 'y'; /* the name before the member */
    ok(!tn_npz_open_memory(data, bytes), "two names of a member");
    refused(TN_ERR_FORMAT, "a member and its entry differ", "are rejected");
    free(data);

    data = read_all(golden("npz/stored.npz"), &bytes);
    data[bytes - 12] = (char)0xff; /* entries of the directory */
    data[bytes - 14] = (char)0xff;
    ok(!tn_npz_open_memory(data, bytes), "more entries than bytes");
    refused(TN_ERR_FORMAT, "too few bytes", "are rejected");
    free(data);
    ok(!tn_npz_open_memory("PK", 2), "two bytes");
    refused(TN_ERR_FORMAT, "too short", "are rejected");
}

/* Tests a member that unpacks to much more than the size of the archive. */
static void check_bombs(void)
{
    const char *path = in_folder("bomb.npz");
    tn_tensor *zeros = tn_zeros(tn_dims(1 << 22), .dtype = TN_U8);
    const int64_t before = tn_unpack_limit();
    const char *const two[] = {"a", "b"};
    tn_tensor *const both[] = {zeros, zeros};
    tn_npz_save(path, two, both, 2, .compressed = true);
    size_t bytes;
    char *data = read_all(path, &bytes);
    ok(bytes < 20000, "8 MiB are packed in %zu bytes", bytes);
    tn_unpack_limit_set(1 << 20);
    ok(!tn_npz_open(path), "with a limit of 1 MiB");
    refused(TN_ERR_IO, "more than 1048576 bytes", "the archive is rejected");
    tn_unpack_limit_set(6 << 20);
    ok(!tn_npz_open(path), "the limit holds for all members together");
    refused(TN_ERR_IO, "tn_unpack_limit_set", "the message names the mend");
    tn_unpack_limit_set(0);
    ok(tn_npz_tensor(tn_npz_open(path), "b"), "without a limit it is read");
    tn_unpack_limit_set(before);

    /* an entry that states a size of 4 GiB for a few bytes */
    char *entry = find(data, bytes, "PK\1\2", 4);
    memset(entry + 24, 0xfe, 4);
    ok(!tn_npz_open_memory(data, bytes), "more than deflate can unpack");
    refused(TN_ERR_FORMAT, "more than deflate can", "is rejected");
    /* an entry that states a size smaller than the real one */
    memset(entry + 24, 0, 4);
    entry[25] = 1;
    tn_npz *file = tn_npz_open_memory(data, bytes);
    ok(file && !tn_npz_tensor(file, "a"), "a member with more bytes");
    refused(TN_ERR_FORMAT, "more bytes than its entry says", "is rejected");
    /* and one that promises more */
    entry[26] = 0x41;
    file = tn_npz_open_memory(data, bytes);
    ok(file && !tn_npz_tensor(file, "a"), "a member with less bytes");
    refused(TN_ERR_FORMAT, "does not unpack to the size", "is rejected");
    free(data);
}

int main(void)
{
    plan_later();
    make_folder();
    check_round_trip(false);
    check_round_trip(true);
    check_mistakes();
    check_hostile();
    check_bombs();
    check_damage("npz/stored.npz");
    check_damage("npz/stream-deflated.npz");
    check_damage("npz/zip64.npz");
    is_str(tn_error(), NULL, "no error is left");
    return done_testing();
}
