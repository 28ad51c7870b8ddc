/* json_write.c: appends JSON to a string that grows as needed. */
#include <json/json.h>

#include <base/plain.h>
#include <inttypes.h>
#include <string.h>

static void add_bytes(tn__json_writer *w, const char *piece, size_t bytes)
{
    if (!w->failed && w->room - w->count <= bytes) {
        const size_t room = 2 * (w->room + bytes) + 64;
        char *text = w->grow(w->text, room);
        w->failed = !text;
        if (text) {
            w->text = text;
            w->room = room;
        }
    }
    if (w->failed)
        return;
    memcpy(w->text + w->count, piece, bytes);
    w->count += bytes;
    w->text[w->count] = '\0';
}

void tn__json_add(tn__json_writer *w, const char *piece)
{
    add_bytes(w, piece, strlen(piece));
}

void tn__json_add_text(tn__json_writer *w, const char *text)
{
    static const char named[] = "\"\\\b\f\n\r\t", name[] = "\"\\bfnrt";
    tn__json_add(w, "\"");
    for (const char *from = text;; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        add_bytes(w, from, (size_t)(text - from));
        if (!c)
            break;
        from = text + 1;
        char out[8];
        const char *found = strchr(named, c);
        if (found)
            tn__plain_print(out, sizeof out, "\\%c", name[found - named]);
        else
            tn__plain_print(out, sizeof out, "\\u%04x", (unsigned)c);
        tn__json_add(w, out);
    }
    tn__json_add(w, "\"");
}

void tn__json_add_integer(tn__json_writer *w, int64_t value)
{
    char out[24];
    tn__plain_print(out, sizeof out, "%" PRId64, value);
    tn__json_add(w, out);
}

void tn__json_add_real(tn__json_writer *w, double value)
{
    char out[40];
    tn__plain_print(out, sizeof out, "%.17g", value);
    tn__json_add(w, out);
    if (!strpbrk(out, ".e"))
        tn__json_add(w, ".0");
}
