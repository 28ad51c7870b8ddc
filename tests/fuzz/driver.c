/* driver.c: runs a fuzz target without libFuzzer, with the files of its corpus
 * and then with random mutations of them.
 *
 *   test_kernel             the corpus and TENON_TEST_FUZZ (3000) mutations
 *   test_kernel FILE...     only these inputs
 *
 * TENON_TEST_SEED selects other mutations. An input that crashes the program,
 * causes a sanitizer report, or takes longer than SECONDS is written to
 * fuzz-TARGET.bin. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

#include "fuzz.h"
#include "tap.h"

#define MAX_BYTES 4096
#define MAX_FILES 256
#define SECONDS 20

typedef struct input {
    size_t size;
    uint8_t data[MAX_BYTES];
} input;

static input corpus[MAX_FILES];
static size_t corpus_count;

/* ---- saving the input of a crash ----------------------------------------- */

static const input *volatile running;
static char crash_path[64];

static void keep_input(void)
{
    const input *now = running;
    int fd = now ? open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (fd < 0)
        return;
    static const char said[] = "Bail out! the input is in fuzz-TARGET.bin\n";
    if (write(fd, now->data, now->size) == (ssize_t)now->size &&
        write(STDOUT_FILENO, said, sizeof said - 1) > 0)
        running = NULL; /* so that it is saved only once */
    close(fd);
}

static void on_signal(int number)
{
    keep_input();
    signal(number, SIG_DFL);
    raise(number);
}

/* A sanitizer calls this callback before it ends the program. */
extern void __sanitizer_set_death_callback(void (*callback)(void))
    __attribute__((weak));

static void watch_for_crashes(void)
{
    static const int sorts[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                                SIGALRM};
    /* Signal handlers need their own stack, in case the stack overflowed. */
    static char room[1 << 16];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = SA_ONSTACK};
    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++)
        sigaction(sorts[i], &action, NULL);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(keep_input);
    snprintf(crash_path, sizeof crash_path, "fuzz-%s.bin", fuzz_target);
}

/* Runs an input in memory of exactly its size, so that reads past it are
 * detected. */
static void run(const input *in)
{
    uint8_t *data = malloc(in->size ? in->size : 1);
    if (!data)
        bail_out("out of memory");
    memcpy(data, in->data, in->size);
    running = in;
    alarm(SECONDS);
    LLVMFuzzerTestOneInput(data, in->size);
    alarm(0);
    running = NULL;
    free(data);
}

/* ---- mutations ---------------------------------------------------------- */

static uint64_t state;

/* splitmix64: Steele, Lea, Flood 2014 */
static uint64_t bits(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(size_t n)
{
    return (size_t)(bits() % n);
}

/* Replaces `gone` bytes at position `at` by `size` bytes, if there is space. */
static void replace(input *in, size_t at, size_t gone, const uint8_t *data,
                    size_t size)
{
    size_t rest = in->size - at - gone;
    if (at + size + rest > MAX_BYTES)
        return;
    uint8_t copy[MAX_BYTES];
    memcpy(copy, data, size);
    memmove(in->data + at + size, in->data + at + gone, rest);
    memcpy(in->data + at, copy, size);
    in->size = at + size + rest;
}

/* Returns a random position, and stores a mostly short length. */
static size_t span(const input *in, size_t *out_length)
{
    size_t at = below(in->size + 1), left = in->size - at;
    size_t most = below(4) && left > 12 ? 12 : left;
    *out_length = below(most + 1);
    return at;
}

/* Returns the class of a character, to find tokens: letter, digit, or other. */
static int sort_of(uint8_t c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_')
        return 2;
    return (c >= '0' && c <= '9') || c == '.';
}

/* Returns the start of the token at a random position, and stores its
 * length. */
static size_t word(const input *in, size_t *out_length)
{
    *out_length = in->size ? 1 : 0;
    if (!in->size)
        return 0;
    size_t at = below(in->size), end = at + 1;
    if (sort_of(in->data[at])) {
        while (at && sort_of(in->data[at - 1]))
            at--;
        while (end < in->size && sort_of(in->data[end]))
            end++;
    }
    *out_length = end - at;
    return at;
}

static void mutate(input *in)
{
    static const char *const odd[] = {
        "", "0", "-1", "1", "9223372036854775807", "9223372036854775808",
        "18446744073709551616", "-9223372036854775808", "1e999", "1e-999",
        "nan", "((((((((((((((((((((((((((((((((", "[[[[[[[[[[[[[[[[",
        "\n", "\r\n", "\xff", "\xc3\xa9", "%s%n", "\"", "\\u0000", "//../"};
    const input *other = &corpus[below(corpus_count)];
    size_t length, from_length, at, from;
    uint8_t byte = (uint8_t)bits();
    switch (below(16)) {
    case 0: /* changes a byte */
        at = below(in->size + 1);
        replace(in, at, at < in->size, &byte, 1);
        break;
    case 1: /* changes a bit */
        if (in->size)
            in->data[below(in->size)] ^= (uint8_t)(1u << below(8));
        break;
    case 2: /* removes bytes */
        at = span(in, &length);
        replace(in, at, length, in->data, 0);
        break;
    case 3: /* repeats bytes */
        from = span(in, &from_length);
        replace(in, below(in->size + 1), 0, in->data + from, from_length);
        break;
    case 4: /* replaces bytes by those of another input */
        from = span(other, &from_length);
        at = span(in, &length);
        replace(in, at, length, other->data + from, from_length);
        break;
    case 5: /* inserts a special value */
        from = below(sizeof odd / sizeof *odd);
        at = word(in, &length);
        replace(in, at, below(2) ? length : 0, (const uint8_t *)odd[from],
                strlen(odd[from]));
        break;
    default: /* replaces a token by one of this or another input */
        if (below(2))
            other = in;
        at = word(in, &length);
        from = word(other, &from_length);
        for (int tries = 8; tries > 0 && length && from_length &&
                            sort_of(in->data[at]) != sort_of(other->data[from]);
             tries--)
            from = word(other, &from_length);
        replace(in, at, length, other->data + from, from_length);
        break;
    }
}

/* ---- the corpus --------------------------------------------------------- */

static bool read_input(const char *path, input *out)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    out->size = fread(out->data, 1, MAX_BYTES, file);
    bool good = !ferror(file);
    fclose(file);
    return good;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Reads the files sorted by name, so that a seed gives the same mutations
 * everywhere. */
static void read_corpus(const char *folder)
{
    struct dirent **list;
    int count = scandir(folder, &list, is_visible, alphasort);
    if (count < 1)
        bail_out("there is no corpus in %s", folder);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        if (corpus_count < MAX_FILES &&
            !read_input(path, &corpus[corpus_count++]))
            bail_out("cannot read %s", path);
        free(list[i]);
    }
    free(list);
}

static int64_t setting(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 0) : otherwise;
}

int main(int argc, char **argv)
{
    plan_later();
    watch_for_crashes();
    for (int i = 1; i < argc; i++) {
        if (!read_input(argv[i], &corpus[0]))
            bail_out("cannot read %s", argv[i]);
        run(&corpus[0]);
        ok(true, "%s holds for %s", fuzz_target, argv[i]);
    }
    if (argc > 1)
        return done_testing();

    const char *root = getenv("top_srcdir");
    char folder[2048];
    snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/%s",
             root ? root : ".", fuzz_target);
    read_corpus(folder);
    for (size_t i = 0; i < corpus_count; i++)
        run(&corpus[i]);
    ok(true, "%s holds for its corpus of %zu", fuzz_target, corpus_count);

    int64_t rounds = setting("TENON_TEST_FUZZ", 3000);
    uint64_t seed = (uint64_t)setting("TENON_TEST_SEED", 1);
    note("TENON_TEST_SEED=%" PRIu64, seed);
    state = seed;
    static input in;
    for (int64_t i = 0; i < rounds; i++) {
        const input *base = &corpus[below(corpus_count)];
        in.size = base->size;
        memcpy(in.data, base->data, base->size);
        for (size_t n = 1 + below(1 + below(6)); n > 0; n--)
            mutate(&in);
        run(&in);
    }
    ok(true, "%s holds for %" PRId64 " mutations", fuzz_target, rounds);
    return done_testing();
}
