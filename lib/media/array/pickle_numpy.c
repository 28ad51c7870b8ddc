/* pickle_numpy.c: NumPy's scalars, such as numpy.float64(0.5), become bools and
 * numbers.
 *
 * numpy.dtype("f8", False, True) makes a dtype; BUILD gives it a state, whose
 * second item is the byte order; scalar(dtype, bytes) makes the number.
 * Source: numpy/_core/src/multiarray/descriptor.c and scalarapi.c. */
#include <media/array/pickle_make.h>

#include <math.h>
#include <string.h>

/* Returns whether NumPy's scalars of this kind and size are read. */
static bool is_known(char kind, unsigned item)
{
    const bool power = item == 2 || item == 4 || item == 8;
    return kind == 'b'                  ? item == 1
           : kind == 'f'                ? power
           : kind == 'i' || kind == 'u' ? power || item == 1
                                        : false;
}

tn__pickle_value *tn__pickle_make_numpy_dtype(tn__pickle *pickle,
                                              const tn__pickle_value *arguments)
{
    const tn__pickle_value *text =
        tn__pickle_argument(arguments, 0, TN__PICKLE_TEXT);
    if (!text || arguments->count > 3)
        return tn__pickle_mistaken(pickle, "numpy.dtype");
    const unsigned item =
        text->bytes == 2 ? (unsigned)(text->text[1] - '0') : 0;
    if (!is_known(text->text[0], item))
        return tn__pickle_fail(pickle, TN_ERR_UNSUPPORTED,
                               "a value of NumPy's dtype %.20s", text->text);
    tn__pickle_value *value = tn__pickle_new(pickle, TN__PICKLE_NUMPY_DTYPE);
    if (!value)
        return NULL;
    value->numpy.kind = text->text[0];
    value->numpy.item = item;
    return value;
}

/* Reads the state of a dtype, a tuple (version, byte order, ...). */
bool tn__pickle_numpy_state(tn__pickle *pickle, tn__pickle_value *dtype,
                            const tn__pickle_value *state)
{
    const tn__pickle_value *order =
        state->kind == TN__PICKLE_TUPLE
            ? tn__pickle_argument(state, 1, TN__PICKLE_TEXT)
            : NULL;
    if (!order || order->bytes != 1 || !strchr("<>|=", order->text[0]))
        return tn__pickle_mistaken(pickle, "the state of numpy.dtype");
    dtype->numpy.big = order->text[0] == '>' ||
                       (order->text[0] == '=' && !tn__array_is_little_endian());
    return true;
}

/* Source: IEEE 754. */
static double half(uint64_t bits)
{
    const int exponent = bits >> 10 & 31;
    const double fraction = (double)(bits & 1023);
    const double size = exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                        : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                       : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
}

static double real_of(uint64_t bits, unsigned item)
{
    const uint32_t low = (uint32_t)bits;
    float single;
    double full;
    memcpy(&single, &low, sizeof single);
    memcpy(&full, &bits, sizeof full);
    return item == 2 ? half(bits) : item == 4 ? (double)single : full;
}

tn__pickle_value *
tn__pickle_make_numpy_scalar(tn__pickle *pickle,
                             const tn__pickle_value *arguments)
{
    const tn__pickle_value *dtype =
        tn__pickle_argument(arguments, 0, TN__PICKLE_NUMPY_DTYPE);
    const tn__pickle_value *data =
        tn__pickle_argument(arguments, 1, TN__PICKLE_BYTES);
    if (!dtype || !data || arguments->count != 2 ||
        data->bytes != dtype->numpy.item)
        return tn__pickle_mistaken(pickle, "a NumPy scalar");
    const unsigned item = dtype->numpy.item;
    const char kind = dtype->numpy.kind;
    uint64_t bits = 0;
    for (unsigned i = 0; i < item; i++)
        bits = bits << 8 |
               (uint8_t)data->text[dtype->numpy.big ? i : item - 1 - i];
    if (kind == 'u' && bits > INT64_MAX) {
        uint8_t longer[9] = {0}; /* little-endian, as LONG1 has it */
        for (int i = 0; i < 8; i++)
            longer[i] = (uint8_t)(bits >> 8 * i);
        return tn__pickle_new_text(pickle, TN__PICKLE_LONG, longer,
                                   sizeof longer);
    }
    tn__pickle_value *value =
        tn__pickle_new(pickle, kind == 'b'   ? TN__PICKLE_BOOL
                               : kind == 'f' ? TN__PICKLE_REAL
                                             : TN__PICKLE_INT);
    if (!value)
        return NULL;
    if (kind == 'f')
        value->real = real_of(bits, item);
    else if (kind == 'b')
        value->integer = bits != 0;
    else if (kind == 'i' && item < 8 && bits >> (8 * item - 1))
        value->integer = (int64_t)(bits | UINT64_MAX << 8 * item);
    else
        value->integer = (int64_t)bits;
    return value;
}
