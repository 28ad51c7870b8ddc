/* normal_form.c: the normal forms of Unicode, NFC, NFD, NFKC and NFKD. */
#include <lm/tokenizer/pipeline.h>

#include <string.h>

/* A character while a normal form is computed. `change` says how many
 * characters of the text it came from, in the way Hugging Face's tokenizers
 * count: 0 means one; 1 means none, because a decomposition inserted it; -n
 * means n + 1, because they were composed. Offsets are computed from these
 * counts. */
typedef struct tn__form_char mark;

/* Sorts combining marks by combining class; the sort is stable. */
static bool sort_marks(tn__work *work, size_t begin, size_t end)
{
    const size_t count = end - begin;
    if (count < 2)
        return true;
    mark *c = work->chars + begin;
    if (count <= 32) {
        for (size_t i = 1; i < count; i++) {
            const mark m = c[i];
            size_t j = i;
            for (; j && c[j - 1].class > m.class; j--)
                c[j] = c[j - 1];
            c[j] = m;
        }
        return true;
    }
    /* a counting sort: linear time for any input */
    if (!tn__array_grow(&work->scratch, &work->scratch_room,
                        count * sizeof(mark), 1))
        return false;
    mark *copy = work->scratch;
    size_t at[257] = {0};
    for (size_t i = 0; i < count; i++)
        at[c[i].class + 1]++;
    for (int k = 0; k < 256; k++)
        at[k + 1] += at[k];
    for (size_t i = 0; i < count; i++)
        copy[at[c[i].class]++] = c[i];
    memcpy(c, copy, count * sizeof *c);
    return true;
}

/* Composes the characters in work->chars in place. Returns their number. */
static size_t compose(tn__work *work, size_t count)
{
    mark *c = work->chars;
    size_t n = 0, starter = SIZE_MAX;
    int last = -1; /* class of the last character after the starter that was
                      not composed; -1: none */
    for (size_t i = 0; i < count; i++) {
        if (starter != SIZE_MAX && (last < c[i].class || last < 0)) {
            const int32_t both = tn__unicode_compose(c[starter].c, c[i].c);
            if (both >= 0) {
                c[starter].c = both;
                c[starter].change += c[i].change - 1;
                continue;
            }
        }
        if (c[i].class == 0) {
            starter = n;
            last = -1;
        } else {
            last = c[i].class;
        }
        c[n++] = c[i];
    }
    return n;
}

static bool normalize_form(tn__work *work, const tn__piece *piece,
                        bool compatibility, bool composed, tn__buffer *out)
{
    const unsigned char *text = work->text.bytes;
    if (tn__is_ascii(text + piece->begin, piece->end - piece->begin))
        return tn__buffer_copy(work, out, piece->begin, piece->end);
    size_t n = 0, marks = 0; /* marks: where the current sequence of combining
                                marks begins */
    for (size_t at = piece->begin; at < piece->end;) {
        int32_t part[TN__MOST_DECOMPOSED];
        const int count = tn__unicode_decompose(tn__utf8_take(text, &at),
                                                compatibility, part);
        if (!tn__array_grow(&work->chars, &work->chars_room,
                            n + TN__MOST_DECOMPOSED, sizeof *work->chars))
            return false;
        for (int i = 0; i < count; i++) {
            const int class = tn__unicode_combining(part[i]);
            if (class == 0) {
                if (!sort_marks(work, marks, n))
                    return false;
                marks = n + 1;
            }
            work->chars[n++] = (mark){part[i], (int16_t)class, i > 0};
        }
    }
    if (marks < n && !sort_marks(work, marks, n))
        return false;
    if (composed)
        n = compose(work, n);
    size_t at = piece->begin; /* position of the next character in the text */
    tn__origin last = {0, 0};
    for (size_t i = 0; i < n; i++) {
        const mark *m = &work->chars[i];
        if (m->change <= 0 && at < piece->end)
            last = tn__origin_at(work, at);
        const tn__origin origin = last;
        for (int k = m->change; k <= 0 && at < piece->end; k++) {
            last = tn__origin_at(work, at);
            at += tn__utf8_length(text[at]);
        }
        if (!tn__buffer_add_char(work, out, m->c, origin))
            return false;
    }
    return true;
}

/* step->flag[0]: compatibility (NFKC, NFKD); step->flag[1]: composed (NFC,
 * NFKC) */
static bool rewrite_form(const tn__step *step, tn__work *work,
                         const tn__piece *piece, tn__buffer *out)
{
    return normalize_form(work, piece, step->flag[0], step->flag[1], out);
}

bool tn__step_form(const tn__step *step, tn__work *work)
{
    return tn__rewrite(step, work, rewrite_form);
}
