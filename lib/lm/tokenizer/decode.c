/* decode.c: converts ids to text. The work's list of pieces (pipeline.h) has
 * one piece for each token, with the token's text. Each decoder rewrites these
 * pieces; at the end they are concatenated. */
#include <lm/tokenizer/pipeline.h>

#include <stdlib.h>
#include <string.h>

/* Rewrites every piece. Unlike tn__rewrite, it keeps pieces that become empty,
 * because some decoders depend on which piece is the first. */
static bool rewrite(const tn__step *step, tn__work *work,
                    bool (*one)(const tn__step *step, tn__work *work, size_t i,
                                const tn__piece *piece, tn__buffer *out))
{
    tn__buffer *out = &work->spare_text;
    out->count = 0;
    for (size_t i = 0; i < work->pieces.count; i++) {
        tn__piece *piece = &work->pieces.piece[i];
        const size_t begin = out->count;
        if (!one(step, work, i, piece, out))
            return false;
        *piece = (tn__piece){(uint32_t)begin, (uint32_t)out->count, -1};
    }
    const tn__buffer text = work->text;
    work->text = work->spare_text;
    work->spare_text = text;
    return true;
}

static bool add(tn__work *work, tn__buffer *out, const void *bytes,
                size_t count)
{
    return tn__buffer_add(work, out, bytes, count, (tn__origin){0, 0});
}

/* Appends bytes to out. Bytes that are not valid UTF-8 are replaced by
 * U+FFFD. */
static bool add_lossy(tn__work *work, tn__buffer *out,
                      const unsigned char *bytes, size_t count)
{
    size_t done = 0;
    if (!count) /* bytes may be NULL */
        return true;
    for (size_t at = 0; at < count;) {
        const size_t begin = at;
        if (tn__utf8_read(bytes, count, &at) >= 0)
            continue;
        if (!add(work, out, bytes + done, begin - done) ||
            !add(work, out, "\xef\xbf\xbd", 3))
            return false;
        done = at;
    }
    return add(work, out, bytes + done, count - done);
}

/* Joins all pieces into one. */
static void join(tn__work *work)
{
    if (!work->pieces.count)
        return;
    work->pieces.piece[0] = (tn__piece){0, (uint32_t)work->text.count, -1};
    work->pieces.count = 1;
}

static bool make_valid(tn__work *work)
{
    tn__buffer *out = &work->spare_text;
    out->count = 0;
    if (!add_lossy(work, out, work->text.bytes, work->text.count))
        return false;
    const tn__buffer text = work->text;
    work->text = work->spare_text;
    work->spare_text = text;
    return true;
}

/* ---- decoders ------------------------------------------------------------ */

bool tn__step_decode_join(const tn__step *step, tn__work *work)
{
    (void)step;
    join(work);
    return true;
}

static bool unmap_bytes(const tn__step *step, tn__work *work, size_t i,
                        const tn__piece *piece, tn__buffer *out)
{
    const unsigned char *text = work->text.bytes + piece->begin;
    const size_t count = piece->end - piece->begin, begin = out->count;
    (void)step;
    (void)i;
    if (!tn__buffer_reserve(work, out, count))
        return false;
    for (size_t at = 0; at < count;) {
        const int byte = tn__char_byte(tn__utf8_read(text, count, &at));
        if (byte < 0) { /* the token has a character that stands for no byte */
            out->count = begin;
            return add(work, out, text, count);
        }
        out->bytes[out->count++] = (unsigned char)byte;
    }
    return true;
}

bool tn__step_decode_byte_level(const tn__step *step, tn__work *work)
{
    if (!rewrite(step, work, unmap_bytes))
        return false;
    if (!work->raw && !make_valid(work))
        return false;
    join(work);
    return true;
}

/* Returns the byte that a token such as "<0xE4>" stands for, or -1 if the token
 * has another form. */
static int byte_of(const unsigned char *text, size_t count)
{
    static const char digit[] = "0123456789abcdefABCDEF";
    if (count != 6 || memcmp(text, "<0x", 3) || text[5] != '>')
        return -1;
    int byte = 0;
    for (int i = 3; i < 5; i++) {
        const char *d = text[i] ? strchr(digit, text[i]) : NULL;
        if (!d)
            return -1;
        const int value = (int)(d - digit);
        byte = byte << 4 | (value < 16 ? value : value - 6);
    }
    return byte;
}

static bool is_utf8(const unsigned char *bytes, size_t count)
{
    for (size_t at = 0; at < count;)
        if (tn__utf8_read(bytes, count, &at) < 0)
            return false;
    return true;
}

/* Converts sequences of byte tokens ("<0xE4>") to the text that their bytes
 * encode. If the bytes are not valid UTF-8, each becomes U+FFFD. */
bool tn__step_decode_byte_fallback(const tn__step *step, tn__work *work)
{
    tn__buffer *out = &work->spare_text;
    (void)step;
    size_t n = 0;
    out->count = 0;
    for (size_t i = 0; i < work->pieces.count;) {
        const tn__piece piece = work->pieces.piece[i];
        const size_t begin = out->count;
        size_t end = i;
        for (; end < work->pieces.count; end++) {
            const tn__piece *p = &work->pieces.piece[end];
            const int byte =
                byte_of(work->text.bytes + p->begin, p->end - p->begin);
            const unsigned char one = (unsigned char)byte;
            if (byte < 0)
                break;
            if (!add(work, out, &one, 1))
                return false;
        }
        if (end == i) {
            if (!tn__buffer_copy(work, out, piece.begin, piece.end))
                return false;
            end = i + 1;
        } else if (!is_utf8(out->bytes + begin, out->count - begin) &&
                   !(work->raw && end == work->pieces.count)) {
            out->count = begin;
            for (size_t k = i; k < end; k++)
                if (!add(work, out, "\xef\xbf\xbd", 3))
                    return false;
        }
        work->pieces.piece[n++] =
            (tn__piece){(uint32_t)begin, (uint32_t)out->count, -1};
        i = end;
    }
    work->pieces.count = n;
    const tn__buffer text = work->text;
    work->text = work->spare_text;
    work->spare_text = text;
    return true;
}

/* Replaces text by content in a piece. */
static bool replace_text(tn__work *work, const tn__piece *piece,
                         const char *text, size_t text_bytes,
                         const char *content, size_t content_bytes,
                         tn__buffer *out)
{
    size_t at = piece->begin;
    while (text_bytes && at < piece->end) {
        const unsigned char *found = memmem(work->text.bytes + at,
                                            piece->end - at, text, text_bytes);
        if (!found)
            break;
        const size_t begin = (size_t)(found - work->text.bytes);
        if (!tn__buffer_copy(work, out, at, begin) ||
            !add(work, out, content, content_bytes))
            return false;
        at = begin + text_bytes;
    }
    return tn__buffer_copy(work, out, at, piece->end);
}

static bool replace_piece(const tn__step *step, tn__work *work, size_t i,
                          const tn__piece *piece, tn__buffer *out)
{
    (void)i;
    if (!step->regex)
        return replace_text(work, piece, step->text, step->text_bytes,
                            step->content, step->content_bytes, out);
    size_t from = 0, last = SIZE_MAX, begin, end;
    int found;
    tn__regex_begin(&work->regex, work->text.bytes + piece->begin,
                    piece->end - piece->begin);
    while ((found = tn__regex_find(step->regex, &work->regex, from, last,
                                   &begin, &end)) > 0) {
        if (!tn__buffer_copy(work, out, piece->begin + from,
                             piece->begin + begin) ||
            !add(work, out, step->content, step->content_bytes))
            return false;
        from = last = end;
    }
    return found == 0 &&
           tn__buffer_copy(work, out, piece->begin + from, piece->end);
}

bool tn__step_decode_replace(const tn__step *step, tn__work *work)
{
    return rewrite(step, work, replace_piece);
}

/* step->text is the character to strip; step->number[] says how often at most
 * at the beginning and at the end. */
static bool strip_piece(const tn__step *step, tn__work *work, size_t i,
                        const tn__piece *piece, tn__buffer *out)
{
    const unsigned char *text = work->text.bytes;
    size_t begin = piece->begin, end = piece->end;
    const size_t n = step->text_bytes;
    (void)i;
    for (int64_t k = 0; k < step->number[0] && end - begin >= n &&
                        memcmp(text + begin, step->text, n) == 0;
         k++)
        begin += n;
    for (int64_t k = 0; k < step->number[1] && end - begin >= n &&
                        memcmp(text + end - n, step->text, n) == 0;
         k++)
        end -= n;
    return tn__buffer_copy(work, out, begin, end);
}

bool tn__step_decode_strip(const tn__step *step, tn__work *work)
{
    return rewrite(step, work, strip_piece);
}

/* Removes the replacement characters of the first token, and replaces those of
 * the other tokens by spaces. */
static bool metaspace_piece(const tn__step *step, tn__work *work, size_t i,
                            const tn__piece *piece, tn__buffer *out)
{
    const bool remove = i == 0 && step->prepend != TN__PREPEND_NEVER;
    return replace_text(work, piece, step->text, step->text_bytes, " ",
                        remove ? 0 : 1, out);
}

static bool run_metaspace(const tn__step *step, tn__work *work)
{
    return rewrite(step, work, metaspace_piece);
}

/* Removes spaces before English punctuation and contractions, as transformers'
 * clean_up_tokenization_spaces does. It also replaces " do not" by " don't". */
static bool clean_up(tn__work *work)
{
    static const struct {
        const char *from, *to;
    } rule[] = {{" .", "."},     {" ?", "?"},     {" !", "!"},
                {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
                {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                {" 've", "'ve"}, {" 're", "'re"}};
    for (size_t k = 0; k < sizeof rule / sizeof *rule; k++) {
        const tn__step step = {.text = rule[k].from,
                               .text_bytes = strlen(rule[k].from),
                               .content = rule[k].to,
                               .content_bytes = strlen(rule[k].to)};
        if (!rewrite(&step, work, replace_piece))
            return false;
    }
    return true;
}

static bool wordpiece_piece(const tn__step *step, tn__work *work, size_t i,
                            const tn__piece *piece, tn__buffer *out)
{
    size_t begin = piece->begin;
    if (i && piece->end - begin >= step->text_bytes &&
        memcmp(work->text.bytes + begin, step->text, step->text_bytes) == 0)
        begin += step->text_bytes;
    else if (i && !add(work, out, " ", 1))
        return false;
    return tn__buffer_copy(work, out, begin, piece->end);
}

/* text: the prefix of tokens inside words; flag[0]: cleanup */
static bool run_wordpiece(const tn__step *step, tn__work *work)
{
    return rewrite(step, work, wordpiece_piece) &&
           (!step->flag[0] || clean_up(work));
}

static bool bpe_piece(const tn__step *step, tn__work *work, size_t i,
                      const tn__piece *piece, tn__buffer *out)
{
    return replace_text(work, piece, step->text, step->text_bytes, " ",
                        i + 1 == work->pieces.count ? 0 : 1, out);
}

static bool run_bpe(const tn__step *step, tn__work *work)
{
    return rewrite(step, work, bpe_piece);
}

/* text: the padding token; content: what separates words; flag[0]: cleanup */
static bool run_ctc(const tn__step *step, tn__work *work)
{
    size_t n = 0;
    for (size_t i = 0; i < work->pieces.count; i++) { /* equal neighbours */
        const tn__piece p = work->pieces.piece[i];
        const tn__piece *last = n ? &work->pieces.piece[n - 1] : NULL;
        if (!last || last->end - last->begin != p.end - p.begin ||
            memcmp(work->text.bytes + last->begin,
                   work->text.bytes + p.begin, p.end - p.begin))
            work->pieces.piece[n++] = p;
    }
    work->pieces.count = n;
    const tn__step padding = {.text = step->text,
                              .text_bytes = step->text_bytes,
                              .content = ""};
    const tn__step words = {.text = step->content,
                            .text_bytes = step->content_bytes,
                            .content = " ",
                            .content_bytes = 1};
    if (!rewrite(&padding, work, replace_piece) ||
        (step->flag[0] &&
         (!clean_up(work) || !rewrite(&words, work, replace_piece))))
        return false;
    n = 0;
    for (size_t i = 0; i < work->pieces.count; i++)
        if (work->pieces.piece[i].begin < work->pieces.piece[i].end)
            work->pieces.piece[n++] = work->pieces.piece[i];
    work->pieces.count = n;
    return true;
}

/* ---- reading ------------------------------------------------------------- */

static bool parse_byte_level(const tn__reader *reader,
                             const tn__json_value *value, tn__step *step)
{
    (void)reader;
    (void)value;
    step->run = tn__step_decode_byte_level;
    return true;
}

static bool parse_fuse(const tn__reader *reader, const tn__json_value *value,
                       tn__step *step)
{
    (void)reader;
    (void)value;
    step->run = tn__step_decode_join;
    return true;
}

static bool parse_byte_fallback(const tn__reader *reader,
                                const tn__json_value *value, tn__step *step)
{
    (void)reader;
    (void)value;
    step->run = tn__step_decode_byte_fallback;
    return true;
}

static bool parse_metaspace(const tn__reader *reader,
                            const tn__json_value *value, tn__step *step)
{
    const char *scheme;
    size_t bytes;
    bool add_space;
    step->run = run_metaspace;
    if (!tn__member_text(reader, value, "replacement", "\xe2\x96\x81",
                         &step->text, &step->text_bytes) ||
        !tn__member_text(reader, value, "prepend_scheme", "always", &scheme,
                         &bytes) ||
        !tn__member_bool(reader, value, "add_prefix_space", true, &add_space))
        return false;
    step->prepend = strcmp(scheme, "never") == 0 || !add_space
                        ? TN__PREPEND_NEVER
                        : TN__PREPEND_ALWAYS;
    return true;
}

static bool parse_wordpiece(const tn__reader *reader,
                            const tn__json_value *value, tn__step *step)
{
    step->run = run_wordpiece;
    return tn__member_text(reader, value, "prefix", "##", &step->text,
                           &step->text_bytes) &&
           tn__member_bool(reader, value, "cleanup", true, &step->flag[0]);
}

static bool parse_bpe(const tn__reader *reader, const tn__json_value *value,
                      tn__step *step)
{
    step->run = run_bpe;
    return tn__member_text(reader, value, "suffix", "</w>", &step->text,
                           &step->text_bytes);
}

static bool parse_ctc(const tn__reader *reader, const tn__json_value *value,
                      tn__step *step)
{
    step->run = run_ctc;
    return tn__member_text(reader, value, "pad_token", "<pad>", &step->text,
                           &step->text_bytes) &&
           tn__member_text(reader, value, "word_delimiter_token", "|",
                           &step->content, &step->content_bytes) &&
           tn__member_bool(reader, value, "cleanup", true, &step->flag[0]);
}

static bool parse_replace(const tn__reader *reader,
                          const tn__json_value *value, tn__step *step)
{
    step->run = tn__step_decode_replace;
    return tn__member_pattern(reader, value, step) &&
           tn__member_text(reader, value, "content", "", &step->content,
                           &step->content_bytes);
}

static bool parse_strip(const tn__reader *reader, const tn__json_value *value,
                        tn__step *step)
{
    step->run = tn__step_decode_strip;
    return tn__member_text(reader, value, "content", " ", &step->text,
                           &step->text_bytes) &&
           (step->text_bytes ||
            tn__refuse(reader, TN_ERR_FORMAT, "\"content\" is empty")) &&
           tn__member_integer(reader, value, "start", 0, &step->number[0]) &&
           tn__member_integer(reader, value, "stop", 0, &step->number[1]);
}

static const tn__step_kind kind_table[] = {
    {"ByteLevel", parse_byte_level},
    {"Fuse", parse_fuse},
    {"ByteFallback", parse_byte_fallback},
    {"Metaspace", parse_metaspace},
    {"WordPiece", parse_wordpiece},
    {"BPEDecoder", parse_bpe},
    {"CTC", parse_ctc},
    {"Replace", parse_replace},
    {"Strip", parse_strip},
};

bool tn__decoder_parse(const tn__reader *reader, const tn__json_value *value,
                       tn__steps *steps)
{
    return tn__steps_parse(reader, value, kind_table,
                           sizeof kind_table / sizeof *kind_table, "decoders",
                           steps);
}

/* ---- all ----------------------------------------------------------------- */

bool tn__decode(const tn_tokenizer *t, tn__work *work, const int64_t *ids,
                size_t count, bool special)
{
    if (!tn__work_begin(work))
        return false;
    for (size_t i = 0; i < count; i++) {
        const int64_t id = ids[i];
        if (id < 0 || id >= t->id_end)
            continue;
        const char *text = NULL;
        size_t bytes = 0;
        if (t->added_of[id] >= 0) {
            const tn__added *a = &t->added[t->added_of[id]];
            if (a->special && !special)
                continue;
            text = a->normal;
            bytes = a->normal_bytes;
        } else if (id < t->model.vocab.id_end) {
            text = t->model.vocab.token[id].text;
            bytes = t->model.vocab.token[id].bytes;
        }
        if (!text)
            continue;
        if (!t->has_decoder && work->pieces.count &&
            !add(work, &work->text, " ", 1))
            return false;
        const size_t begin = work->text.count;
        if (!add(work, &work->text, text, bytes) ||
            !tn__pieces_add(&work->pieces, begin, work->text.count, -1))
            return false;
    }
    return tn__steps_run(&t->decoder, work) &&
           (work->raw || make_valid(work));
}
