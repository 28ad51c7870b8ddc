/* pipeline.c: the functions on buffers, pieces and lists of steps. */
#include <lm/tokenizer/pipeline.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tn__work_free(tn__work *work)
{
    tn__buffer *const buffer[] = {&work->text, &work->spare_text};
    for (int i = 0; i < 2; i++) {
        free(buffer[i]->bytes);
        free(buffer[i]->origin);
    }
    free(work->pieces.piece);
    free(work->spare_pieces.piece);
    tn__regex_run_free(&work->regex);
    free(work->id);
    free(work->span);
    free(work->scratch);
    free(work->chars);
    memset(work, 0, sizeof *work);
}

bool tn__work_begin(tn__work *work)
{
    work->text.count = work->spare_text.count = 0;
    work->pieces.count = 0;
    work->id_count = 0;
    return tn__buffer_reserve(work, &work->text, 1) &&
           tn__buffer_reserve(work, &work->spare_text, 1);
}

bool tn__buffer_reserve(tn__work *work, tn__buffer *buffer, size_t more)
{
    const size_t need = buffer->count + more;
    if (need > TN__MOST_TEXT) {
        tn_error_set(TN_ERR_ARGUMENT, "tokenizer: the text becomes longer "
                     "than 2 GiB: encode it in parts");
        return false;
    }
    return tn__array_grow(&buffer->bytes, &buffer->room, need, 1) &&
           (!work->offsets ||
            tn__array_grow(&buffer->origin, &buffer->origin_room, need,
                           sizeof *buffer->origin));
}

bool tn__buffer_add(tn__work *work, tn__buffer *buffer, const void *bytes,
                    size_t count, tn__origin origin)
{
    if (!count)
        return true;
    if (!tn__buffer_reserve(work, buffer, count))
        return false;
    memcpy(buffer->bytes + buffer->count, bytes, count);
    if (work->offsets)
        for (size_t i = 0; i < count; i++)
            buffer->origin[buffer->count + i] = origin;
    buffer->count += count;
    return true;
}

bool tn__buffer_copy(tn__work *work, tn__buffer *buffer, size_t begin,
                     size_t end)
{
    const size_t count = end - begin;
    if (!count)
        return true;
    if (!tn__buffer_reserve(work, buffer, count))
        return false;
    memcpy(buffer->bytes + buffer->count, work->text.bytes + begin, count);
    if (work->offsets)
        memcpy(buffer->origin + buffer->count, work->text.origin + begin,
               count * sizeof *buffer->origin);
    buffer->count += count;
    return true;
}

bool tn__buffer_add_char(tn__work *work, tn__buffer *buffer, int32_t c,
                         tn__origin origin)
{
    unsigned char bytes[4];
    return tn__buffer_add(work, buffer, bytes, tn__utf8_write(bytes, c),
                          origin);
}

tn__origin tn__origin_at(const tn__work *work, size_t at)
{
    return work->offsets ? work->text.origin[at] : (tn__origin){0, 0};
}

bool tn__is_ascii(const unsigned char *text, size_t count)
{
    uint64_t all = 0, part;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        memcpy(&part, text + i, 8);
        all |= part;
    }
    for (; i < count; i++)
        all |= text[i];
    return !(all & 0x8080808080808080u);
}

bool tn__pieces_add(tn__pieces *pieces, size_t begin, size_t end, int32_t id)
{
    if (pieces->count == pieces->room &&
        !tn__array_grow(&pieces->piece, &pieces->room, pieces->count + 1,
                        sizeof *pieces->piece))
        return false;
    pieces->piece[pieces->count++] =
        (tn__piece){(uint32_t)begin, (uint32_t)end, id};
    return true;
}

bool tn__work_add_id(tn__work *work, int32_t id, size_t begin, size_t end)
{
    if (work->id_count == work->id_room) {
        size_t room = work->id_room;
        if (!tn__array_grow(&work->id, &room, work->id_count + 1,
                            sizeof *work->id) ||
            !tn__array_grow(&work->span, &work->span_room, room,
                            sizeof *work->span))
            return false;
        work->id_room = room < work->span_room ? room : work->span_room;
    }
    work->id[work->id_count] = id;
    work->span[work->id_count++] =
        (tn__piece){(uint32_t)begin, (uint32_t)end, -1};
    return true;
}

static void swap_text(tn__work *work)
{
    const tn__buffer text = work->text;
    work->text = work->spare_text;
    work->spare_text = text;
}

static void swap_pieces(tn__work *work)
{
    const tn__pieces pieces = work->pieces;
    work->pieces = work->spare_pieces;
    work->spare_pieces = pieces;
}

bool tn__rewrite(const tn__step *step, tn__work *work,
                 bool (*rewrite)(const tn__step *step, tn__work *work,
                                 const tn__piece *piece, tn__buffer *out))
{
    tn__buffer *out = &work->spare_text;
    out->count = 0;
    size_t n = 0;
    for (size_t i = 0; i < work->pieces.count; i++) {
        tn__piece *piece = &work->pieces.piece[i];
        const size_t begin = out->count;
        if (!(piece->id < 0 ? rewrite(step, work, piece, out)
                            : tn__buffer_copy(work, out, piece->begin,
                                              piece->end)))
            return false;
        if (out->count > begin || piece->id >= 0)
            work->pieces.piece[n++] =
                (tn__piece){(uint32_t)begin, (uint32_t)out->count, piece->id};
    }
    work->pieces.count = n;
    swap_text(work);
    return true;
}

bool tn__split(const tn__step *step, tn__work *work,
               bool (*split)(const tn__step *step, tn__work *work,
                             const tn__piece *piece, tn__pieces *out))
{
    tn__pieces *out = &work->spare_pieces;
    out->count = 0;
    for (size_t i = 0; i < work->pieces.count; i++) {
        const tn__piece *piece = &work->pieces.piece[i];
        if (!(piece->id < 0 ? split(step, work, piece, out)
                            : tn__pieces_add(out, piece->begin, piece->end,
                                             piece->id)))
            return false;
    }
    swap_pieces(work);
    return true;
}

/* ---- lists of steps ------------------------------------------------------ */

tn__step *tn__steps_add(tn__own *arena, tn__steps *steps)
{
    tn__step *step = tn__own_take(arena, sizeof *step);
    if (!step)
        return NULL;
    if (steps->last)
        steps->last->next = step;
    else
        steps->first = step;
    steps->last = step;
    return step;
}

bool tn__steps_run(const tn__steps *steps, tn__work *work)
{
    for (const tn__step *s = steps->first; s; s = s->next)
        if (!s->run(s, work))
            return false;
    return true;
}

bool tn__refuse(const tn__reader *reader, tn_status code, const char *format,
                ...)
{
    char why[400];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    for (char *c = why; *c; c++) /* the message may quote a token, which can
                                    contain any character */
        if ((unsigned char)*c < ' ')
            *c = ' ';
    tn_error_set(code, "tokenizer_open: %s: %s%s%s", reader->path,
                 reader->key ? reader->key : "", reader->key ? ": " : "",
                 why);
    return false;
}

static bool parse_steps(const tn__reader *reader, const tn__json_value *value,
                        const tn__step_kind *kind, size_t kind_count,
                        const char *member, tn__steps *steps, int depth)
{
    if (!value || tn__json_is(value, TN__JSON_NULL))
        return true;
    const char *type = tn__json_text(tn__json_get(value, "type"));
    if (!type)
        return tn__refuse(reader, TN_ERR_FORMAT, "an object with \"type\" is "
                          "expected");
    if (strcmp(type, "Sequence") == 0) {
        const tn__json_value *list = tn__json_get(value, member);
        if (!tn__json_is(list, TN__JSON_LIST))
            return tn__refuse(reader, TN_ERR_FORMAT,
                              "Sequence has no list \"%s\"", member);
        if (depth == 16)
            return tn__refuse(reader, TN_ERR_FORMAT, "a Sequence is nested "
                              "deeper than 16");
        TN__JSON_EACH(item, list)
            if (!parse_steps(reader, item, kind, kind_count, member, steps,
                             depth + 1))
                return false;
        return true;
    }
    for (size_t i = 0; i < kind_count; i++)
        if (strcmp(kind[i].name, type) == 0) {
            tn__step *step = tn__steps_add(reader->arena, steps);
            return step && kind[i].parse(reader, value, step);
        }
    return tn__refuse(reader, TN_ERR_FORMAT, "the type \"%.60s\" is unknown",
                      type);
}

bool tn__steps_parse(const tn__reader *reader, const tn__json_value *value,
                     const tn__step_kind *kind, size_t kind_count,
                     const char *member, tn__steps *steps)
{
    return parse_steps(reader, value, kind, kind_count, member, steps, 0);
}

/* ---- members ------------------------------------------------------------- */

static const tn__json_value *find_member(const tn__json_value *object,
                                         const char *name)
{
    const tn__json_value *v = tn__json_get(object, name);
    return tn__json_is(v, TN__JSON_NULL) ? NULL : v;
}

bool tn__member_bool(const tn__reader *reader, const tn__json_value *object,
                     const char *name, bool otherwise, bool *out)
{
    const tn__json_value *v = find_member(object, name);
    *out = v ? v->kind == TN__JSON_TRUE : otherwise;
    return !v || v->kind == TN__JSON_TRUE || v->kind == TN__JSON_FALSE ||
           tn__refuse(reader, TN_ERR_FORMAT, "\"%s\" is not true or false",
                      name);
}

bool tn__member_integer(const tn__reader *reader, const tn__json_value *object,
                        const char *name, int64_t otherwise, int64_t *out)
{
    const tn__json_value *v = find_member(object, name);
    *out = v && v->kind == TN__JSON_INTEGER ? v->integer : otherwise;
    return (!v || (v->kind == TN__JSON_INTEGER && v->integer >= 0)) ||
           tn__refuse(reader, TN_ERR_FORMAT,
                      "\"%s\" is not an integer of at least 0", name);
}

bool tn__member_text(const tn__reader *reader, const tn__json_value *object,
                     const char *name, const char *otherwise,
                     const char **text, size_t *bytes)
{
    const tn__json_value *v = find_member(object, name);
    *text = otherwise;
    *bytes = otherwise ? strlen(otherwise) : 0;
    if (v && v->kind == TN__JSON_TEXT) {
        *text = tn__own_text(reader->arena, v->text, v->bytes);
        *bytes = v->bytes;
        return *text != NULL;
    }
    return !v || tn__refuse(reader, TN_ERR_FORMAT, "\"%s\" is not a string",
                            name);
}

bool tn__compile(const tn__reader *reader, const char *pattern, size_t bytes,
                 const tn__regex **out)
{
    char error[160];
    *out = tn__regex_new(reader->arena, pattern, bytes, error, sizeof error);
    if (!*out && *error)
        tn__refuse(reader, TN_ERR_FORMAT, "the pattern \"%.80s\": %s", pattern,
                   error);
    else if (!*out) /* does nothing if memory ran out, which is recorded */
        tn__refuse(reader, TN_ERR_MEMORY, "out of memory for a pattern");
    return *out != NULL;
}

bool tn__member_pattern(const tn__reader *reader, const tn__json_value *object,
                        tn__step *step)
{
    const tn__json_value *pattern = tn__json_get(object, "pattern");
    const char *regex;
    size_t bytes;
    if (!tn__json_is(pattern, TN__JSON_OBJECT))
        return tn__refuse(reader, TN_ERR_FORMAT, "\"pattern\" is neither "
                          "{\"String\": ..} nor {\"Regex\": ..}");
    if (!tn__member_text(reader, pattern, "Regex", NULL, &regex, &bytes) ||
        !tn__member_text(reader, pattern, "String", NULL, &step->text,
                         &step->text_bytes))
        return false;
    if (regex)
        return tn__compile(reader, regex, bytes, &step->regex);
    return step->text ||
           tn__refuse(reader, TN_ERR_FORMAT, "\"pattern\" is neither "
                      "{\"String\": ..} nor {\"Regex\": ..}");
}
