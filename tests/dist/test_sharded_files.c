/* test_sharded_files.c: checkpoints whose files say what is not so, although all
 * hashes are right: pieces that overlap, leave gaps, lie outside of their whole,
 * or contradict each other. Each is refused with a message, and nothing large is
 * allocated. */
#include "tap.h"

#include <inttypes.h>
#include <parallel/xxh64.h>
#include <sys/stat.h>
#include <tenon/sharded.h>
#include <tenon/tenon.h>
#include <unistd.h>

static char folder[64];

static uint64_t xxh64(const char *data, size_t bytes, size_t step)
{
    tn__xxh64 h;
    tn__xxh64_begin(&h);
    for (size_t i = 0; i < bytes; i += step)
        tn__xxh64_add(&h, data + i, bytes - i < step ? bytes - i : step);
    return tn__xxh64_end(&h);
}

/* Values of xxhsum -H64. */
static void test_hash(void)
{
    char text[300];
    for (int i = 0; i < 300; i++)
        text[i] = (char)(i * 7);
    ok(xxh64("", 0, 1) == 0xef46db3751d8e999u, "the hash of nothing");
    ok(xxh64("abc", 3, 3) == 0x44bc2cf5ad770999u, "the hash of abc");
    ok(xxh64("The quick brown fox jumps over the lazy dog", 43, 43) ==
           0x0b242d361fda71bcu, "the hash of a sentence");
    int wrong = 0;
    for (size_t bytes = 0; bytes < 300; bytes += 13)
        for (size_t step = 1; step < 80; step++)
            wrong += xxh64(text, bytes, step) != xxh64(text, bytes, 300);
    is_int(wrong, 0, "it does not depend on how the bytes are added");
}

/* A file of a rank. */
typedef struct file {
    const char *entry[4];
    int64_t rows[4];   /* of float32 (rows, 2); of flat ones (2 * rows) */
    const char *pieces;
    bool flat;
} file;

static void put_file(const char *path, const file *f, tn_dtype dtype)
{
    tn_tensor *x[4];
    int count = 0;
    for (; count < 4 && f->entry[count]; count++)
        x[count] = f->flat ? tn_zeros(tn_dims(2 * f->rows[count]), .dtype = dtype)
                           : tn_zeros(tn_dims(f->rows[count], 2), .dtype = dtype);
    const char *const metadata[][2] = {{"sharded.pieces", f->pieces},
                                       {"step", "1"}, {"random", "1 0"}};
    tn_safetensors_save(path, f->entry, x, count, metadata, 3);
}

static uint64_t header_of(const char *path)
{
    int64_t data = 0;
    char bytes[8192];
    TN_SCOPE(scope) {
        tn_safetensors *opened = tn_safetensors_open(path);
        const int fd = tn_safetensors_descriptor(opened, &data);
        if (data > (int64_t)sizeof bytes ||
            pread(fd, bytes, (size_t)data, 0) != data)
            bail_out("%s", path);
    }
    return xxh64(bytes, (size_t)data, (size_t)data);
}

/* Writes a checkpoint of `count` files, and opens it. */
static tn_sharded *craft(const file *f, int count, tn_dtype second)
{
    static int number;
    char path[128], name[200];
    snprintf(path, sizeof path, "%s/step-%d", folder, number++);
    mkdir(path, 0777);
    snprintf(name, sizeof name, "%s/COMPLETE", path);
    FILE *complete = fopen(name, "w");
    fprintf(complete, "{\"format\":\"tenon checkpoint\",\"version\":1,\"step\":1,"
                      "\"serial\":1,\"files\":[");
    for (int i = 0; i < count; i++) {
        struct stat info = {0};
        snprintf(name, sizeof name, "%s/rank-%d", path, i);
        put_file(name, &f[i], i ? second : TN_F32);
        if (stat(name, &info) < 0)
            bail_out("%s", tn_error());
        fprintf(complete, "%s{\"name\":\"rank-%d\",\"bytes\":%lld,"
                          "\"header\":\"%016" PRIx64 "\"}", i ? "," : "", i,
                (long long)info.st_size, header_of(name));
    }
    fputs("]}", complete);
    fclose(complete);
    return tn_sharded_open(path);
}

static void refuse(const file *f, int count, const char *text)
{
    tn_sharded *saved = craft(f, count, TN_F32);
    ok(!saved && tn_error_code() == TN_ERR_FORMAT && strstr(tn_error(), text),
       "refused: %s", tn_error() ? tn_error() : text);
    tn_error_clear();
}

#define HASH "\"hash\":\"0000000000000000\"}"
#define PIECE(shape, offset)                                                  \
    "{\"of\":\"w\",\"shape\":" shape ",\"offset\":" offset "," HASH
#define FLAT(shape, offset)                                                   \
    "{\"of\":\"w\",\"shape\":" shape ",\"flat\":true,\"offset\":" offset "," HASH

static void test_pieces(void)
{
    file f[2] = {{{"a"}, {3}, "{\"a\":" PIECE("[5,2]", "[0,0]") "}", false},
                 {{"b"}, {2}, "{\"b\":" PIECE("[5,2]", "[3,0]") "}", false}};
    tn_sharded *saved = craft(f, 2, TN_F32);
    ok(saved && tn_sharded_count(saved) == 1 &&
           tn_sharded_piece_count(saved, "w") == 2, "two pieces of a whole");
    refuse(f, 1, "the pieces of \"w\" have a gap at element 6");
    f[1].pieces = "{\"b\":" PIECE("[5,2]", "[2,0]") "}";
    refuse(f, 2, "the pieces of \"w\" overlap at element 4");
    f[1].pieces = "{\"b\":" PIECE("[5,2]", "[4,0]") "}";
    refuse(f, 2, "the piece \"b\" is not within its whole");
    f[1].pieces = "{\"b\":" PIECE("[6,2]", "[3,0]") "}";
    refuse(f, 2, "do not agree about its shape");
    f[1].pieces = "{\"b\":" FLAT("[5,2]", "[6]") "}";
    refuse(f, 2, "the piece \"b\" is not within its whole");
    f[1].flat = true;
    ok(craft(f, 2, TN_F32) != NULL, "a flat one beside a block");
    f[1].pieces = "{\"b\":" FLAT("[5,2]", "[5]") "}";
    refuse(f, 2, "overlap at element 5");
    f[1].pieces = "{\"b\":" FLAT("[5,2]", "[9223372036854775807]") "}";
    refuse(f, 2, "not within its whole");
    f[1].pieces = "{\"b\":" FLAT("[5,2]", "[9223372036854775808]") "}";
    refuse(f, 2, "\"offset\" has not the dimensions");
    f[1].pieces = "{\"b\":" FLAT("[4611686018427387904,4]", "[6]") "}";
    refuse(f, 2, "\"shape\" is not a shape");
    f[1].pieces = "{\"b\":" FLAT("[500000000000000000]", "[6]") "}";
    refuse(f, 2, "do not agree about its shape");
    /* A whole that is larger than all files: there are no bytes for it. */
    f[0].pieces = "{\"a\":" PIECE("[200000000000000000,2]", "[0,0]") "}";
    refuse(f, 1, "have a gap at element 6");
    f[1].pieces = "{\"c\":" HASH;
    refuse(f, 1, "have a gap");
    f[0].pieces = "{\"a\":{" HASH "}";
    f[1].pieces = "{\"c\":{" HASH "}";
    refuse(f, 2, "\"b\" is not in \"sharded.pieces\"");
    f[1].pieces = "[]";
    refuse(f, 2, "it is not an object");
    f[1].pieces = "{\"b\":{\"hash\":\"12\"}}";
    refuse(f, 2, "an entry has no hash");
    f[0].pieces = "{\"a\":" PIECE("[5,2]", "[0,0]") "}";
    f[1] = (file){{"b"}, {2}, "{\"b\":" PIECE("[5,2]", "[3,0]") "}", false};
    saved = craft(f, 2, TN_I32);
    ok(!saved && tn_error() && strstr(tn_error(), "shape or dtype"),
       "refused: %s", tn_error());
    tn_error_clear();
    saved = craft(f, 2, TN_F32);
    ok(tn_sharded_verify(saved) == TN_ERR_FORMAT &&
           strstr(tn_error(), "does not have its hash"), "refused: %s",
       tn_error());
    tn_error_clear();
    /* Two pieces in one file, and a whole with the name of an entry. */
    const file both = {{"a", "b", "w2"}, {3, 2, 1},
                       "{\"a\":" PIECE("[5,2]", "[0,0]") ",\"b\":"
                       PIECE("[5,2]", "[3,0]") ",\"w2\":{" HASH "}", false};
    saved = craft(&both, 1, TN_F32);
    ok(saved && tn_sharded_count(saved) == 2, "several in one file");
}

static void test_complete(void)
{
    static const char *const text[][2] = {
        {"", "it is not JSON"},
        {"{}", "it is not of a checkpoint"},
        {"{\"format\":\"tenon checkpoint\",\"version\":2}", "another version"},
        {"{\"format\":\"tenon checkpoint\",\"version\":1,\"step\":-1}",
         "it has no step"},
        {"{\"format\":\"tenon checkpoint\",\"version\":1,\"step\":1,\"serial\":1,"
         "\"files\":[]}", "no list of files"},
        {"{\"format\":\"tenon checkpoint\",\"version\":1,\"step\":1,\"serial\":1,"
         "\"files\":[{\"name\":\"../x\",\"bytes\":1,"
         "\"header\":\"0000000000000000\"}]}", "not that of a file in its folder"},
        {"{\"format\":\"tenon checkpoint\",\"version\":1,\"step\":1,\"serial\":1,"
         "\"files\":[{\"name\":\"rank-0\",\"bytes\":1,"
         "\"header\":\"000000000000000g\"}]}", "no size or no hash"},
        {"{\"format\":\"tenon checkpoint\",\"version\":1,\"step\":1,\"serial\":1,"
         "\"files\":[{\"name\":\"rank-0\",\"bytes\":1,"
         "\"header\":\"0000000000000000\"}]}", "rank-0: No such file"}};
    char path[128];
    snprintf(path, sizeof path, "%s/step-99", folder);
    mkdir(path, 0777);
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        char name[200];
        snprintf(name, sizeof name, "%s/COMPLETE", path);
        FILE *out = fopen(name, "w");
        fputs(text[i][0], out);
        fclose(out);
        ok(!tn_sharded_open(path) && tn_error() &&
               strstr(tn_error(), text[i][1]), "refused: %s",
           tn_error() ? tn_error() : text[i][1]);
        tn_error_clear();
    }
}

int main(void)
{
    plan_later();
    snprintf(folder, sizeof folder, "%s/files-%ld.tmp",
             access("/dev/shm", W_OK) ? "." : "/dev/shm", (long)getpid());
    if (mkdir(folder, 0777) < 0)
        bail_out("cannot make %s", folder);
    test_hash();
    test_pieces();
    test_complete();
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ok(system(command) == 0 && !tn_error(), "the folder is removed");
    return done_testing();
}
