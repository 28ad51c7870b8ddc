/* tenon_program.c: draws the report of a compiled function (tn_compiled_text) as
 * SVG. Time runs downwards: on the left the calls of the device in order, each
 * with the operators that are fused in it, on the right the arena, with a
 * rectangle for each temporary tensor from the call that writes it to the last one
 * that reads it. */
#include "tenon_program.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 960, LEFT = 16, TOP = 84, CALLS = 500, /* in pixels, as below */
    ARENA = 540, ARENA_WIDTH = WIDTH - ARENA - LEFT,
    ROW = 22, NOTE = 15,
    COLOURS = 6
};

typedef struct call {
    char *text, *note; /* note: why it is not fused, or NULL. Both point into the
                        * report */
    double y, height;  /* set by place_calls */
} call;

/* A temporary tensor. */
typedef struct place {
    double from, until;
    int first, last; /* calls */
    char *writer;
} place;

typedef struct report {
    char *bytes; /* owned: the file, of which lines are cut out */
    char *head[3];
    int head_count;
    call *call;   /* owned */
    place *place; /* owned */
    int call_count, place_count;
    double arena, height;
} report;

/* ---- reading ------------------------------------------------------------- */

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    size_t length = 0, room = 0, got = 1;
    while (file && got) {
        if (length + 4096 > room) {
            room = 2 * room + 65536;
            char *more = realloc(bytes, room);
            if (!more)
                break;
            bytes = more;
        }
        got = fread(bytes + length, 1, room - length - 1, file);
        length += got;
    }
    if (file && !got && !ferror(file))
        bytes[length] = 0;
    else {
        free(bytes);
        bytes = NULL;
    }
    if (file)
        fclose(file);
    return bytes;
}

/* Takes one line of a report. Returns false if it is not one. */
static bool take_line(report *r, char *line)
{
    int at = 0, number;
    place p = {0};
    if (!*line || strcmp(line, "arena:") == 0 ||
        strncmp(line, "list of the launches", 20) == 0)
        return true;
    if (sscanf(line, "      bytes %lf to %lf in calls %d to %d: %n", &p.from,
               &p.until, &p.first, &p.last, &at) == 4 && at) {
        p.writer = line + at;
        r->arena = p.until + 1 > r->arena ? p.until + 1 : r->arena;
        r->place[r->place_count++] = p;
        return p.first >= 0 && p.first <= p.last && p.last < r->call_count;
    }
    if (strncmp(line, "      ", 6) == 0 && !isdigit((unsigned char)line[6])) {
        if (r->call_count)
            r->call[r->call_count - 1].note = line + 6;
        return r->call_count > 0;
    }
    if (*line == ' ' || isdigit((unsigned char)*line)) {
        if (sscanf(line, "%d %n", &number, &at) == 1 &&
            number == r->call_count && line[at]) {
            r->call[r->call_count++].text = line + at;
            return true;
        }
    }
    if (r->call_count || r->head_count == 3)
        return false;
    r->head[r->head_count++] = line;
    return true;
}

static bool read_report(report *r, const char *path)
{
    *r = (report){.bytes = read_file(path)};
    if (!r->bytes) {
        fprintf(stderr, "tenon: %s: %s\n", path, strerror(errno));
        return false;
    }
    size_t lines = 1;
    for (const char *c = r->bytes; *c; c++)
        lines += *c == '\n';
    r->call = calloc(lines, sizeof *r->call);
    r->place = calloc(lines, sizeof *r->place);
    bool good = r->call && r->place;
    for (char *line = r->bytes, *next; good && line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        good = take_line(r, line);
    }
    if (!good || !r->call_count || r->head_count < 2)
        fprintf(stderr, "tenon: %s is not the report of a compiled function "
                        "(TENON_COMPILE_REPORT)\n", path);
    return good && r->call_count && r->head_count >= 2;
}

static void release(report *r)
{
    free(r->bytes);
    free(r->call);
    free(r->place);
}

/* ---- drawing ------------------------------------------------------------- */

static void place_calls(report *r)
{
    double y = TOP;
    for (int i = 0; i < r->call_count; i++) {
        r->call[i].y = y;
        r->call[i].height = ROW + (r->call[i].note ? NOTE : 0);
        y += r->call[i].height + 4;
    }
    r->height = y + 24;
}

/* Writes at most `most` characters of the text, with the marks of XML escaped. */
static void put_text(FILE *file, const char *text, int most)
{
    const bool cut = (int)strlen(text) > most;
    for (int i = 0; text[i] && i < (cut ? most - 3 : most); i++) {
        const char c = text[i];
        const char *mark = c == '<' ? "&lt;" : c == '>' ? "&gt;"
                         : c == '&' ? "&amp;" : NULL;
        if (mark)
            fputs(mark, file);
        else
            fputc(c, file);
    }
    if (cut)
        fputs("...", file);
}

static const char style[] =
    ".bg{fill:#fff}text{fill:#1f2328;font-size:12px}.h{font-size:16px;"
    "font-weight:600}.dim{fill:#59636e}.n{fill:#59636e;font-size:10.5px}"
    ".b{fill:#f6f8fa;stroke:#d0d7de}.f{fill:#ddf4ff;stroke:#54aeff}"
    ".g{stroke:#eaeef2}.a{fill:none;stroke:#8c959f}"
    ".m{fill-opacity:.55;stroke:#fff;stroke-width:.7}"
    ".c0{fill:#0969da}.c1{fill:#cf5d12}.c2{fill:#1a7f37}.c3{fill:#c11574}"
    ".c4{fill:#7048c6}.c5{fill:#9a6700}"
    "@media(prefers-color-scheme:dark){.bg{fill:#0d1117}text{fill:#e6edf3}"
    ".dim,.n{fill:#9198a1}.b{fill:#161b22;stroke:#3d444d}"
    ".f{fill:#0c2d4d;stroke:#1f6feb}.g{stroke:#21262d}.m{stroke:#0d1117}"
    ".c0{fill:#58a6ff}.c1{fill:#ffa657}.c2{fill:#56d364}.c3{fill:#ff7ac6}"
    ".c4{fill:#bc8cff}.c5{fill:#e3b341}}";

static void draw_calls(FILE *file, const report *r)
{
    for (int i = 0; i < r->call_count; i++) {
        const call *c = &r->call[i];
        const bool fused = strstr(c->text, " + ") != NULL;
        fprintf(file, "<line class=\"g\" x1=\"%d\" x2=\"%d\" y1=\"%.0f\" "
                "y2=\"%.0f\"/>\n", LEFT + CALLS, WIDTH - LEFT,
                c->y + ROW / 2., c->y + ROW / 2.);
        fprintf(file, "<g><title>%d  ", i);
        put_text(file, c->text, 4000);
        fprintf(file, "</title><rect class=\"%s\" x=\"%d\" y=\"%.0f\" rx=\"4\" "
                "width=\"%d\" height=\"%d\"/>", fused ? "f" : "b", LEFT, c->y,
                CALLS, ROW);
        fprintf(file, "<text class=\"dim\" x=\"%d\" y=\"%.0f\" "
                "text-anchor=\"end\">%d</text>", LEFT + 28, c->y + 15, i);
        fprintf(file, "<text x=\"%d\" y=\"%.0f\">", LEFT + 36, c->y + 15);
        put_text(file, c->text, 72);
        fputs("</text>", file);
        if (c->note) {
            fprintf(file, "<text class=\"n\" x=\"%d\" y=\"%.0f\">", LEFT + 36,
                    c->y + ROW + 11);
            put_text(file, c->note, 88);
            fputs("</text>", file);
        }
        fputs("</g>\n", file);
    }
}

static void draw_arena(FILE *file, const report *r)
{
    const double scale = r->arena > 0 ? ARENA_WIDTH / r->arena : 0;
    const call *end = &r->call[r->call_count - 1];
    for (int i = 0; i < r->place_count; i++) {
        const place *p = &r->place[i];
        const double y = r->call[p->first].y + 2,
                     until = r->call[p->last].y + ROW - 2;
        const double width = (p->until + 1 - p->from) * scale;
        fprintf(file, "<rect class=\"m c%d\" x=\"%.2f\" y=\"%.0f\" "
                "width=\"%.2f\" height=\"%.0f\"><title>", i % COLOURS,
                ARENA + p->from * scale, y, width > 0.5 ? width : 0.5,
                until - y);
        put_text(file, p->writer, 200);
        fprintf(file, ": %.0f bytes, calls %d to %d</title></rect>\n",
                p->until + 1 - p->from, p->first, p->last);
    }
    fprintf(file, "<rect class=\"a\" x=\"%d\" y=\"%d\" width=\"%d\" "
            "height=\"%.0f\"/>\n", ARENA, TOP - 2, ARENA_WIDTH,
            end->y + ROW + 4 - TOP);
}

static void draw(FILE *file, const report *r)
{
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
            "font-family=\"sans-serif\">\n<title>", WIDTH, r->height, WIDTH,
            r->height);
    put_text(file, r->head[0], 200);
    fprintf(file, "</title>\n<style>%s</style>\n<rect class=\"bg\" "
            "width=\"100%%\" height=\"100%%\"/>\n", style);
    for (int i = 0; i < r->head_count; i++) {
        fprintf(file, "<text class=\"%s\" x=\"%d\" y=\"%d\">",
                i ? "dim" : "h", LEFT, 24 + 17 * i);
        put_text(file, r->head[i], 160);
        fputs("</text>\n", file);
    }
    fprintf(file, "<text class=\"dim\" x=\"%d\" y=\"%d\">arena: %.0f bytes, "
            "%d temporary tensors</text>\n", ARENA, TOP - 8, r->arena,
            r->place_count);
    draw_calls(file, r);
    draw_arena(file, r);
    fputs("</svg>\n", file);
}

/* ---- the command --------------------------------------------------------- */

/* Writes the path of the picture: that of the report with another ending. */
static void name_picture(char *out, size_t room, const char *path)
{
    const char *end = strrchr(path, '.');
    const bool ends = end && strcmp(end, ".txt") == 0;
    snprintf(out, room, "%.*s.svg",
             (int)(ends ? (size_t)(end - path) : strlen(path)), path);
}

int tenon_program(int count, char **argument)
{
    const char *path = NULL, *out = NULL;
    char own[4096];
    for (int i = 0; i < count; i++) {
        if (strcmp(argument[i], "-o") == 0 && i + 1 < count)
            out = argument[++i];
        else if (argument[i][0] == '-' || path)
            return 2;
        else
            path = argument[i];
    }
    if (!path)
        return 2;
    if (!out) {
        name_picture(own, sizeof own, path);
        out = own;
    }
    report r;
    bool done = read_report(&r, path);
    if (done) {
        place_calls(&r);
        FILE *file = fopen(out, "wb");
        if (file)
            draw(file, &r);
        bool failed = !file || ferror(file);
        failed = (file && fclose(file) != 0) || failed;
        if (failed)
            fprintf(stderr, "tenon: %s: %s\n", out, strerror(errno));
        else
            printf("written: %s\n", out);
        done = !failed;
    }
    release(&r);
    return !done || fflush(stdout) != 0;
}
