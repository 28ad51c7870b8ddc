/* charsmap.c: the normalizer Precompiled, which applies SentencePiece's
 * normalization rules. The rules are a double-array trie (the format of
 * darts-clone), which maps character sequences to offsets in a list of
 * NUL-terminated replacement texts. */
#include <lm/tokenizer/pipeline.h>

#include <string.h>

typedef struct tn__charsmap {
    uint32_t *unit;
    size_t unit_count;
    const char *normal;
    size_t normal_bytes;
} tn__charsmap;

int64_t tn__base64(const char *text, size_t bytes, unsigned char *out)
{
    int64_t n = 0;
    uint32_t bits = 0;
    int count = 0;
    size_t i = 0;
    for (; i < bytes && text[i] != '='; i++) {
        const char c = text[i];
        const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                          : c >= 'a' && c <= 'z' ? c - 'a' + 26
                          : c >= '0' && c <= '9' ? c - '0' + 52
                          : c == '+'             ? 62
                          : c == '/'             ? 63
                                                 : -1;
        if (digit < 0)
            return -1;
        bits = bits << 6 | (uint32_t)digit;
        if ((count += 6) >= 8) {
            count -= 8;
            out[n++] = (unsigned char)(bits >> count);
        }
    }
    if (count == 6 || bits & ((1u << count) - 1))
        return -1;
    for (size_t padding = 0; i < bytes; i++)
        if (text[i] != '=' || ++padding > 2)
            return -1;
    return n;
}

static const tn__charsmap *charsmap_from_bytes(const tn__reader *reader,
                                            const void *data, size_t bytes)
{
    uint32_t trie_bytes = 0;
    if (bytes >= 4)
        memcpy(&trie_bytes, data, 4); /* little-endian, like the whole format */
    if (bytes < 8 || trie_bytes % 4 || trie_bytes < 4 ||
        trie_bytes > bytes - 4) {
        tn__refuse(reader, TN_ERR_FORMAT, "the precompiled map is truncated");
        return NULL;
    }
    tn__charsmap *map = tn__own_take(reader->arena, sizeof *map);
    if (!map)
        return NULL;
    map->unit_count = trie_bytes / 4;
    map->unit = tn__own_array(reader->arena, map->unit_count, 4);
    if (!map->unit)
        return NULL;
    memcpy(map->unit, (const char *)data + 4, trie_bytes);
    map->normal_bytes = bytes - 4 - trie_bytes;
    map->normal = tn__own_text(reader->arena,
                                 (const char *)data + 4 + trie_bytes,
                                 map->normal_bytes);
    return map->normal ? map : NULL;
}

const tn__charsmap *tn__charsmap_new(const tn__reader *reader,
                                     const char *base64, size_t bytes)
{
    unsigned char *data =
        tn__own_take(reader->arena, bytes / 4 * 3 + 4);
    const int64_t n = data ? tn__base64(base64, bytes, data) : 0;
    if (n < 0)
        tn__refuse(reader, TN_ERR_FORMAT,
                   "\"precompiled_charsmap\" is not base64");
    return data && n >= 0 ? charsmap_from_bytes(reader, data, (size_t)n)
                          : NULL;
}

/* Finds the replacement text of the shortest prefix that has one. Returns NULL
 * if no prefix has one. */
static const char *find_normal(const tn__charsmap *map,
                               const unsigned char *text, size_t bytes)
{
    size_t at = 0;
    uint32_t unit = map->unit[0];
    at ^= (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
    for (size_t i = 0; i < bytes && text[i]; i++) {
        at ^= text[i];
        if (at >= map->unit_count)
            return NULL;
        unit = map->unit[at];
        if ((unit & (1u << 31 | 0xff)) != text[i])
            return NULL;
        at ^= (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
        if (at >= map->unit_count)
            return NULL;
        if (unit >> 8 & 1) {
            const size_t place = map->unit[at] & 0x7fffffff;
            return place < map->normal_bytes ? map->normal + place : NULL;
        }
    }
    return NULL;
}

static bool add_normal(tn__work *work, const char *normal, size_t begin,
                       size_t end, tn__buffer *out)
{
    /* as in Hugging Face's tokenizers: character i of the replacement has the
     * origin of character i of the original; excess characters have the origin
     * of the last one */
    tn__origin origin = {0, 0};
    size_t source = begin;
    /* a malicious map may contain bytes that are not UTF-8 */
    const size_t bytes = strlen(normal);
    const unsigned char *text = (const unsigned char *)normal;
    for (size_t at = 0; at < bytes;) {
        unsigned char c[4];
        const int32_t code = tn__utf8_read(text, bytes, &at);
        if (source < end) {
            if (work->offsets)
                origin = work->text.origin[source];
            source += tn__utf8_length(work->text.bytes[source]);
        }
        if (!tn__buffer_add(work, out, c,
                            tn__utf8_write(c, code < 0 ? 0xfffd : code),
                            origin))
            return false;
    }
    return true;
}

/* Looks up grapheme clusters of at most 5 bytes as a whole. If that fails,
 * looks up each of their characters. This is what the crate spm_precompiled
 * does. */
static bool rewrite(const tn__step *step, tn__work *work,
                    const tn__piece *piece, tn__buffer *out)
{
    const unsigned char *text = work->text.bytes;
    for (size_t at = piece->begin; at < piece->end;) {
        const size_t end = tn__unicode_grapheme(text, piece->end, at);
        const char *normal =
            end - at < 6 ? find_normal(step->charsmap, text + at, end - at)
                         : NULL;
        if (normal) {
            if (!add_normal(work, normal, at, end, out))
                return false;
            at = end;
        }
        while (at < end) {
            const size_t next = at + tn__utf8_length(text[at]);
            normal = find_normal(step->charsmap, text + at, next - at);
            if (!(normal ? add_normal(work, normal, at, next, out)
                         : tn__buffer_copy(work, out, at, next)))
                return false;
            at = next;
        }
    }
    return true;
}

bool tn__step_charsmap(const tn__step *step, tn__work *work)
{
    return tn__rewrite(step, work, rewrite);
}
