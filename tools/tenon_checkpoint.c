/* tenon_checkpoint.c: lists, joins and checks checkpoints of training runs. */
#include "tenon_checkpoint.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/sharded.h>

static int complain(void)
{
    fprintf(stderr, "tenon: %s\n", tn_error());
    return 1;
}

/* Prints a name from a file without characters that control a terminal. */
static void print_name(const char *name)
{
    for (; *name; name++)
        putchar((unsigned char)*name < ' ' || *name == 127 ? '?' : *name);
}

static void print_shape(const tn_sharded *saved, const char *name)
{
    char text[512] = "[";
    const int64_t *shape = tn_sharded_shape(saved, name);
    int at = 1;
    for (int i = 0; i < tn_sharded_ndim(saved, name) && at < 480; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld",
                       i ? ", " : "", (long long)shape[i]);
    snprintf(text + at, sizeof text - (size_t)at, "]");
    printf("%-9s %-20s ", tn_dtype_name(tn_sharded_dtype(saved, name)), text);
}

static int info(const char *path, bool pieces)
{
    tn_sharded *saved = tn_sharded_open(path);
    if (!saved)
        return complain();
    const char *step = tn_sharded_text(saved, "step");
    const int files = tn_sharded_file_count(saved);
    printf("%s\n", tn_sharded_path(saved));
    printf("step %s, %d tensors in %d file%s\n\n", step ? step : "unknown",
           tn_sharded_count(saved), files, files == 1 ? "" : "s");
    double bytes = 0;
    for (int i = 0; i < tn_sharded_count(saved); i++) {
        const char *name = tn_sharded_name(saved, i);
        const int64_t *shape = tn_sharded_shape(saved, name);
        double size = (double)tn_dtype_bytes(tn_sharded_dtype(saved, name));
        for (int d = 0; d < tn_sharded_ndim(saved, name); d++)
            size *= (double)shape[d];
        bytes += size;
        const int count = tn_sharded_piece_count(saved, name);
        print_shape(saved, name);
        printf("%4d piece%s  ", count, count == 1 ? " " : "s");
        print_name(name);
        putchar('\n');
        for (int k = 0; pieces && k < count; k++) {
            char text[1024];
            tn_sharded_piece_text(saved, name, k, text, sizeof text);
            printf("    ");
            print_name(text);
            putchar('\n');
        }
    }
    printf("\n%.6g MB\n", bytes / 1e6);
    return fflush(stdout) != 0;
}

static int verify(const char *path)
{
    tn_sharded *saved = tn_sharded_open(path);
    if (!saved || tn_sharded_verify(saved) < 0)
        return complain();
    const bool whole = !tn_sharded_text(saved, "sharded.rank");
    printf("%s: %d tensors in %d file%s: complete%s\n", tn_sharded_path(saved),
           tn_sharded_count(saved), tn_sharded_file_count(saved),
           tn_sharded_file_count(saved) == 1 ? "" : "s",
           whole ? "; a file of one process has no hashes"
                 : ", and all hashes are right");
    return fflush(stdout) != 0;
}

static int merge(const char *path, const char *out)
{
    tn_sharded *saved = tn_sharded_open(path);
    if (!saved || tn_sharded_merge(saved, out) < 0)
        return complain();
    printf("written: %s (%d tensors)\n", out, tn_sharded_count(saved));
    return fflush(stdout) != 0;
}

int tenon_checkpoint(int count, char **argument)
{
    const char *verb = count > 0 ? argument[0] : "";
    const bool pieces = count == 3 && strcmp(argument[1], "-v") == 0;
    if (strcmp(verb, "info") == 0 && count == 2 + pieces)
        return info(argument[1 + pieces], pieces);
    if (strcmp(verb, "verify") == 0 && count == 2)
        return verify(argument[1]);
    if (strcmp(verb, "merge") == 0 && count == 3)
        return merge(argument[1], argument[2]);
    return 2;
}
