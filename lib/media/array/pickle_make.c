/* pickle_make.c: makes the values of calls of names of Python's library and of
 * small classes of PyTorch: containers, strings and numbers. */
#include <media/array/pickle_make.h>

#include <stdio.h>
#include <string.h>

/* ---- arguments ----------------------------------------------------------- */

tn__pickle_value *tn__pickle_mistaken(tn__pickle *pickle, const char *called)
{
    return tn__pickle_fail(pickle, TN_ERR_FORMAT,
                           "a malformed pickle: wrong arguments for %s",
                           called);
}

const tn__pickle_value *tn__pickle_argument(const tn__pickle_value *arguments,
                                            size_t i, tn__pickle_kind kind)
{
    return i < arguments->count && arguments->item[i]->kind == kind
               ? arguments->item[i]
               : NULL;
}

static bool is_list(const tn__pickle_value *value)
{
    return value->kind == TN__PICKLE_LIST || value->kind == TN__PICKLE_TUPLE;
}

/* Copies a list, so that a later change of one copy does not change the
 * other. */
static tn__pickle_value *copy_items(tn__pickle *pickle, tn__pickle_kind kind,
                                    const tn__pickle_value *from)
{
    tn__pickle_value *value = tn__pickle_new(pickle, kind);
    if (!value || !from->count)
        return value;
    value->item = tn__pickle_alloc(pickle, from->count, sizeof *value->item);
    if (!value->item)
        return NULL;
    memcpy(value->item, from->item, from->count * sizeof *value->item);
    value->count = value->room = from->count;
    return value;
}

/* ---- containers ---------------------------------------------------------- */

/* OrderedDict(), or OrderedDict([(key, value), ...]) of Python 2. */
tn__pickle_value *tn__pickle_make_dict(tn__pickle *pickle,
                                       const tn__pickle_value *arguments)
{
    const tn__pickle_value *pairs =
        tn__pickle_argument(arguments, 0, TN__PICKLE_LIST);
    tn__pickle_value *dict = tn__pickle_new(pickle, TN__PICKLE_DICT);
    if (arguments->count > 1 || (arguments->count && !pairs))
        return tn__pickle_mistaken(pickle, "OrderedDict");
    if (!dict)
        return NULL;
    dict->attributes = true;
    if (!pairs || !pairs->count)
        return dict;
    dict->item = tn__pickle_alloc(pickle, pairs->count, 2 * sizeof *dict->item);
    for (size_t i = 0; dict->item && i < pairs->count; i++) {
        const tn__pickle_value *pair = pairs->item[i];
        if (!is_list(pair) || pair->count != 2)
            return tn__pickle_mistaken(pickle, "OrderedDict");
        dict->item[dict->count++] = pair->item[0];
        dict->item[dict->count++] = pair->item[1];
    }
    dict->room = dict->count;
    return dict->item ? dict : NULL;
}

/* defaultdict(factory): the items follow, and the factory is dropped. */
tn__pickle_value *
tn__pickle_make_default_dict(tn__pickle *pickle,
                             const tn__pickle_value *arguments)
{
    if (arguments->count > 1 ||
        (arguments->count &&
         !tn__pickle_argument(arguments, 0, TN__PICKLE_NAME) &&
         !tn__pickle_argument(arguments, 0, TN__PICKLE_NONE)))
        return tn__pickle_mistaken(pickle, "defaultdict");
    return tn__pickle_new(pickle, TN__PICKLE_DICT);
}

tn__pickle_value *tn__pickle_make_counter(tn__pickle *pickle,
                                          const tn__pickle_value *arguments)
{
    const tn__pickle_value *dict =
        tn__pickle_argument(arguments, 0, TN__PICKLE_DICT);
    if (arguments->count != 1 || !dict)
        return tn__pickle_mistaken(pickle, "Counter");
    return copy_items(pickle, TN__PICKLE_DICT, dict);
}

tn__pickle_value *tn__pickle_make_set(tn__pickle *pickle,
                                      const tn__pickle_value *arguments)
{
    if (arguments->count != 1 || !is_list(arguments->item[0]))
        return tn__pickle_mistaken(pickle, "set");
    return copy_items(pickle, TN__PICKLE_LIST, arguments->item[0]);
}

tn__pickle_value *tn__pickle_make_size(tn__pickle *pickle,
                                       const tn__pickle_value *arguments)
{
    if (arguments->count != 1 || !is_list(arguments->item[0]))
        return tn__pickle_mistaken(pickle, "torch.Size");
    return copy_items(pickle, TN__PICKLE_TUPLE, arguments->item[0]);
}

/* complex(real, imaginary) is a list of two numbers. */
tn__pickle_value *tn__pickle_make_complex(tn__pickle *pickle,
                                          const tn__pickle_value *arguments)
{
    if (arguments->count != 2 ||
        !tn__pickle_argument(arguments, 0, TN__PICKLE_REAL) ||
        !tn__pickle_argument(arguments, 1, TN__PICKLE_REAL))
        return tn__pickle_mistaken(pickle, "complex");
    return copy_items(pickle, TN__PICKLE_TUPLE, arguments);
}

/* ---- texts and bytes ----------------------------------------------------- */

/* torch.device("cuda", 0) is the text "cuda:0". */
tn__pickle_value *tn__pickle_make_device(tn__pickle *pickle,
                                         const tn__pickle_value *arguments)
{
    const tn__pickle_value *kind =
        tn__pickle_argument(arguments, 0, TN__PICKLE_TEXT);
    const tn__pickle_value *index =
        tn__pickle_argument(arguments, 1, TN__PICKLE_INT);
    char text[64];
    if (!kind || kind->bytes > 32 || arguments->count > 2 ||
        (arguments->count == 2 && !index))
        return tn__pickle_mistaken(pickle, "torch.device");
    int bytes = index ? snprintf(text, sizeof text, "%s:%lld", kind->text,
                                 (long long)index->integer)
                      : snprintf(text, sizeof text, "%s", kind->text);
    return tn__pickle_new_text(pickle, TN__PICKLE_TEXT, text, (size_t)bytes);
}

/* _get_layout("torch.strided") is its text. */
tn__pickle_value *tn__pickle_make_layout(tn__pickle *pickle,
                                         const tn__pickle_value *arguments)
{
    if (arguments->count != 1 ||
        !tn__pickle_argument(arguments, 0, TN__PICKLE_TEXT))
        return tn__pickle_mistaken(pickle, "_get_layout");
    return arguments->item[0];
}

/* _codecs.encode(text, "latin1"): how protocol 2 stores bytes. */
tn__pickle_value *tn__pickle_make_encoded(tn__pickle *pickle,
                                          const tn__pickle_value *arguments)
{
    const tn__pickle_value *text =
        tn__pickle_argument(arguments, 0, TN__PICKLE_TEXT);
    const tn__pickle_value *codec =
        tn__pickle_argument(arguments, 1, TN__PICKLE_TEXT);
    if (!text || !codec || arguments->count != 2 ||
        strcmp(codec->text, "latin1") != 0)
        return tn__pickle_mistaken(pickle, "_codecs.encode");
    tn__pickle_value *value =
        tn__pickle_new_text(pickle, TN__PICKLE_BYTES, text->text, text->bytes);
    if (!value)
        return NULL;
    const uint8_t *p = (const uint8_t *)text->text, *end = p + text->bytes;
    char *out = (char *)(uintptr_t)value->text; /* memory of the new value */
    size_t n = 0;
    while (p < end) {
        if (*p < 0x80) {
            out[n++] = (char)*p++;
        } else if ((*p & 0xfc) == 0xc0 && end - p >= 2) {
            out[n++] = (char)((*p & 3) << 6 | (p[1] & 0x3f));
            p += 2;
        } else {
            return tn__pickle_mistaken(pickle, "_codecs.encode");
        }
    }
    out[n] = 0;
    value->bytes = n;
    return value;
}

/* bytes() and bytearray() are empty; bytearray(data) is data. */
tn__pickle_value *tn__pickle_make_bytes(tn__pickle *pickle,
                                        const tn__pickle_value *arguments)
{
    if (arguments->count == 0)
        return tn__pickle_new_text(pickle, TN__PICKLE_BYTES, "", 0);
    if (arguments->count != 1 ||
        !tn__pickle_argument(arguments, 0, TN__PICKLE_BYTES))
        return tn__pickle_mistaken(pickle, "bytearray");
    return arguments->item[0];
}
