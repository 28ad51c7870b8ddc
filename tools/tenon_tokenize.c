/* tenon_tokenize.c: the command `tenon tokenize`. Prints the tokens of a text,
 * or with --decode the text of token ids. */
#include "tenon_tokenize.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tokenizer.h>

typedef struct request {
    const char *tokenizer, *text, *file, *pattern;
    bool decode, ids_only, special;
} request;

static int complain(void)
{
    fprintf(stderr, "tenon: %s\n", tn_error());
    return 1;
}

/* Reads a file, or the standard input if path is "-" or NULL. */
static char *read_all(const char *path, size_t *bytes)
{
    const bool standard = !path || strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    char *text = NULL;
    size_t count = 0, room = 0;
    if (!file) {
        fprintf(stderr, "tenon: %s: %s\n", path, strerror(errno));
        return NULL;
    }
    for (;;) {
        if (room - count < 65536) {
            char *more = realloc(text, room += room / 2 + 131072);
            if (!more) {
                fprintf(stderr, "tenon: out of memory for %zu bytes of "
                                "input\n", room);
                break;
            }
            text = more;
        }
        const size_t n = fread(text + count, 1, room - count - 1, file);
        count += n;
        if (!n) {
            text[count] = '\0';
            *bytes = count;
            if (!standard)
                fclose(file);
            return text;
        }
    }
    if (!standard)
        fclose(file);
    free(text);
    return NULL;
}

/* Prints a token in quotes. Control characters are printed as hexadecimal
 * escapes. */
static void print_token(const char *token, int64_t bytes)
{
    putchar('"');
    for (int64_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)token[i];
        if (c < ' ' || c == 0x7f)
            printf("\\x%02x", c);
        else
            printf(c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    putchar('"');
}

static int encode(tn_tokenizer *t, const request *r, const char *text,
                  size_t bytes)
{
    tn_encoding *e = tn_tokenizer_encode(t, text, .bytes = (int64_t)bytes,
                                         .special = r->special);
    if (!e)
        return complain();
    for (int64_t i = 0; i < tn_encoding_count(e); i++) {
        const int64_t id = tn_encoding_ids(e)[i];
        if (r->ids_only) {
            printf("%s%" PRId64, i ? " " : "", id);
            continue;
        }
        int64_t length = 0;
        const char *token = tn_tokenizer_token(t, id, &length);
        printf("%8" PRId64 "  %8" PRId64 "-%-8" PRId64 "  ", id,
               tn_encoding_offsets(e)[2 * i],
               tn_encoding_offsets(e)[2 * i + 1]);
        print_token(token ? token : "", length);
        putchar('\n');
    }
    if (r->ids_only)
        putchar('\n');
    return fflush(stdout) != 0;
}

static int decode(tn_tokenizer *t, const char *text)
{
    tn_detokenizer *d = tn_detokenizer_new(t);
    if (!d)
        return complain();
    for (const char *at = text;;) {
        char *end;
        at += strspn(at, " ,\t\r\n[]");
        if (!*at)
            break;
        errno = 0;
        const int64_t id = strtoll(at, &end, 10);
        if (end == at || errno || id < 0 ||
            id >= tn_tokenizer_vocab_size(t)) {
            fprintf(stderr, "tenon: \"%.20s\" is not a token id: ids are "
                            "at least 0 and below %" PRId64 "\n", at,
                    tn_tokenizer_vocab_size(t));
            return 1;
        }
        at = end;
        const char *more = tn_detokenizer_add(d, id);
        if (!more)
            return complain();
        fputs(more, stdout);
    }
    const char *rest = tn_detokenizer_end(d);
    if (!rest)
        return complain();
    puts(rest);
    return fflush(stdout) != 0;
}

int tenon_tokenize(int count, char **argument)
{
    request r = {.special = true};
    for (int i = 0; i < count; i++) {
        const char *a = argument[i];
        if (strcmp(a, "--decode") == 0)
            r.decode = true;
        else if (strcmp(a, "--ids") == 0)
            r.ids_only = true;
        else if (strcmp(a, "--no-special") == 0)
            r.special = false;
        else if (strcmp(a, "-f") == 0 && i + 1 < count)
            r.file = argument[++i];
        else if (strcmp(a, "--pattern") == 0 && i + 1 < count)
            r.pattern = argument[++i];
        else if (*a == '-' && a[1])
            return 2;
        else if (!r.tokenizer)
            r.tokenizer = a;
        else if (!r.text)
            r.text = a;
        else
            return 2;
    }
    if (!r.tokenizer || (r.text && r.file))
        return 2;
    tn_tokenizer *t = r.pattern ? tn_tokenizer_open(r.tokenizer,
                                                    .pattern = r.pattern)
                                : tn_tokenizer_open(r.tokenizer);
    if (!t)
        return complain();
    size_t bytes = r.text ? strlen(r.text) : 0;
    char *own = r.text ? NULL : read_all(r.file, &bytes);
    if (!r.text && !own)
        return 1;
    const char *text = r.text ? r.text : own;
    const int status = r.decode ? decode(t, text) : encode(t, &r, text, bytes);
    free(own);
    return status;
}
