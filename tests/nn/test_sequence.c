/* test_sequence.c: tests padded and packed sequences, and recurrent layers over
 * them. tests/golden/packed.safetensors has PyTorch 2.15's results
 * (tests/golden/make_packed.py). */
#include <tenon/tenon.h>

#include "../tap.h"

static const int64_t lengths[] = {2, 5, 1, 5, 3};
static tn_safetensors *golden;

static tn_tensor *sample(const char *kind, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", kind, name);
    return tn_safetensors_has(golden, full)
               ? tn_safetensors_tensor(golden, full)
               : NULL;
}

static void is_near(tn_tensor *got, const char *kind, const char *name)
{
    tn_tensor *want = sample(kind, name);
    double apart = tn_item(tn_max(tn_abs(tn_sub(got, want))));
    /* sums of at most 50 products near 1, added in another order */
    ok(apart < 2e-5, "%s.%s is PyTorch's (%g)", kind, name, apart);
    if (tn_error()) {
        note("%s", tn_error());
        tn_error_clear();
    }
}

static tn_tensor *leaf(const char *kind, const char *name)
{
    tn_tensor *x = sample(kind, name);
    return x ? tn_requires_grad(x) : NULL;
}

static void check_layer(const char *kind, tn_module *net, bool lstm,
                        bool batch_first)
{
    tn_scope *scope = tn_scope_open();
    tn_parameter_list *list = tn_parameters(net);
    for (int i = 0; i < tn_parameters_count(list); i++)
        TN_NO_GRAD
        {
            tn_copy_(tn_parameters_at(list, i),
                     sample(kind, tn_parameters_name(list, i)));
        }
    tn_tensor *x = leaf(kind, "x"), *h0 = leaf(kind, "h0"),
              *c0 = lstm ? leaf(kind, "c0") : NULL, *h, *c = NULL;
    tn_packed *packed = tn_pack_padded_sequence(
        x, lengths, 5, .batch_first = batch_first, .enforce_sorted = false);
    is_near(tn_packed_data(packed), kind, "packed");
    packed = lstm ? tn_nn_lstm_forward_packed(net, packed, h0, c0, &h, &c)
                  : tn_nn_rnn_forward_packed(net, packed, h0, &h);
    tn_tensor *out = tn_pad_packed_sequence(packed, .batch_first = batch_first,
                                            .padding_value = -1);
    is_near(out, kind, "out");
    is_near(h, kind, "h");
    tn_tensor *loss = tn_add(tn_sum(tn_mul(out, sample(kind, "weight.out"))),
                             tn_sum(tn_mul(h, sample(kind, "weight.h"))));
    if (lstm) {
        is_near(c, kind, "c");
        loss = tn_add(loss, tn_sum(tn_mul(c, sample(kind, "weight.c"))));
    }
    tn_backward(loss);
    is_near(tn_tensor_grad(x), kind, "grad.x");
    is_near(tn_tensor_grad(h0), kind, "grad.h0");
    if (lstm)
        is_near(tn_tensor_grad(c0), kind, "grad.c0");
    for (int i = 0; i < tn_parameters_count(list); i++) {
        char name[64];
        snprintf(name, sizeof name, "grad.%s", tn_parameters_name(list, i));
        is_near(tn_tensor_grad(tn_parameters_at(list, i)), kind, name);
    }
    tn_scope_close(scope);
}

static bool has(tn_tensor *x, const double *want)
{
    for (int64_t i = 0; i < tn_tensor_numel(x); i++)
        if (tn_item(tn_narrow(tn_reshape(x, tn_dims(-1)), 0, i, 1)) != want[i])
            return false;
    return true;
}

static void check_padding(void)
{
    tn_tensor *s[] = {tn_ones(tn_dims(1)), tn_full(tn_dims(3), 2),
                      tn_zeros(tn_dims(0))};
    ok(has(tn_pad_sequence(s, 3), (double[]){1, 2, 0, 0, 2, 0, 0, 2, 0}),
       "pad_sequence, with an empty sequence");
    ok(has(tn_pad_sequence(s, 3, .batch_first = true, .padding_value = 7,
                           .padding_left = true),
           (double[]){7, 7, 1, 2, 2, 2, 7, 7, 7}),
       "batch first, padded on the left");
    tn_packed *p = tn_pack_sequence(s, 2, .enforce_sorted = false);
    ok(has(tn_packed_data(p), (double[]){2, 1, 2, 2}), "pack_sequence");
    is_int(tn_packed_count(p), 2, "two sequences");
    is_int(tn_packed_times(p), 3, "three times");
    is_int(tn_packed_batch_sizes(p)[0], 2, "the first with both");
    is_int(tn_packed_sorted_indices(p)[0], 1, "the longer is first");
    is_int(tn_packed_lengths(p)[0], 1, "lengths are as given");
    p = tn_packed_replace(p, tn_neg(tn_packed_data(p)));
    ok(has(tn_pad_packed_sequence(p, .batch_first = true, .total_length = 4),
           (double[]){-1, 0, 0, 0, -2, -2, -2, 0}),
       "padded again, to a total length");
}

/* A packed batch of equal lengths gives the same result as the batch without
 * packing. */
static void check_equal(void)
{
    tn_module *gru = tn_nn_gru(3, 4, .bidirectional = true);
    tn_tensor *x = tn_randn(tn_dims(4, 2, 3)), *h, *h2;
    const int64_t equal[] = {4, 4};
    tn_packed *p = tn_pack_padded_sequence(x, equal, 2);
    int64_t before = tn_scope_count();
    p = tn_nn_rnn_forward_packed(gru, p, NULL, &h);
    is_int(tn_scope_count(), before + 2, "a call leaves its results only");
    tn_tensor *out = tn_nn_rnn_forward(gru, x, NULL, &h2);
    ok(tn_item_int(tn_all(tn_eq(out, tn_pad_packed_sequence(p)))) &&
           tn_item_int(tn_all(tn_eq(h, h2))),
       "equal lengths give the bits of the padded batch");
}

#define REFUSED(call, want, text)                                              \
    do {                                                                       \
        ok((call) == NULL, "refused");                                         \
        is_int(tn_error_code(), want, "with the right code");                  \
        ok(tn_error() && strstr(tn_error(), text), "%s: %s", text,             \
           tn_error() ? tn_error() : "nothing");                               \
        tn_error_clear();                                                      \
    } while (0)

static void check_mistakes(void)
{
    const tn_status wrong = TN_ERR_ARGUMENT;
    tn_tensor *x = tn_zeros(tn_dims(4, 2, 3)), *y = tn_zeros(tn_dims(2, 5));
    tn_module *gru = tn_nn_gru(3, 4);
    const int64_t rising[] = {2, 4}, empty[] = {4, 0}, far[] = {5, 4},
                  good[] = {4, 2};
    REFUSED(tn_pad_sequence(NULL, 2), wrong, "sequences is NULL");
    REFUSED(tn_pad_sequence(&x, 0), wrong, "no sequences");
    REFUSED(tn_pad_sequence(((tn_tensor *[]){x, y}), 2), TN_ERR_SHAPE,
            "sequence 1 differs");
    REFUSED(tn_pad_sequence(((tn_tensor *[]){x, NULL}), 2), wrong, "NULL");
    REFUSED(tn_pack_padded_sequence(NULL, good, 2), wrong, "input is NULL");
    REFUSED(tn_pack_padded_sequence(x, NULL, 2), wrong, "lengths is NULL");
    REFUSED(tn_pack_padded_sequence(x, good, 1), TN_ERR_SHAPE,
            "(time, batch, ...)");
    REFUSED(tn_pack_padded_sequence(x, rising, 2), wrong,
            "lengths[1] is 4, the one before 2: sort them");
    REFUSED(tn_pack_padded_sequence(x, empty, 2), wrong,
            "lengths[1] is 0: expected 1 to 4: leave empty sequences out");
    REFUSED(tn_pack_padded_sequence(x, far, 2), wrong, "lengths[0] is 5");
    REFUSED(
        tn_pack_sequence(
            ((tn_tensor *[]){tn_zeros(tn_dims(1)), tn_zeros(tn_dims(0))}), 2),
        wrong, "leave empty sequences out");
    tn_packed *p = tn_pack_padded_sequence(x, good, 2);
    REFUSED(tn_pad_packed_sequence(p, .total_length = 3), wrong,
            "total_length is 3, the longest sequence has 4");
    REFUSED(tn_pad_packed_sequence(NULL), wrong, "packed is NULL");
    REFUSED(tn_packed_replace(p, y), TN_ERR_SHAPE,
            "data has 2 rows; the sequences have 6 elements");
    REFUSED(tn_nn_rnn_forward_packed(gru, NULL, NULL, NULL), wrong,
            "input is NULL");
    REFUSED(tn_nn_rnn_forward_packed(tn_nn_lstm(3, 4), p, NULL, NULL), wrong,
            "nn_rnn_forward_packed");
    REFUSED(tn_nn_lstm_forward_packed(gru, p, NULL, NULL, NULL, NULL), wrong,
            "nn_lstm_forward_packed");
    REFUSED(tn_nn_rnn_forward_packed(tn_nn_gru(2, 4), p, NULL, NULL),
            TN_ERR_SHAPE, "expected (elements, 2)");
    REFUSED(tn_nn_rnn_forward_packed(gru, p, y, NULL), TN_ERR_SHAPE,
            "(1, 2, 4)");
}

int main(void)
{
    const char *top = getenv("top_srcdir");
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/packed.safetensors",
             top ? top : "..");
    golden = tn_safetensors_open(path);
    if (!golden)
        bail_out("%s", tn_error());
    check_layer("rnn", tn_nn_rnn(3, 4), false, false);
    check_layer("gru", tn_nn_gru(3, 4, .num_layers = 2, .bidirectional = true),
                false, false);
    check_layer("lstm",
                tn_nn_lstm(3, 4, .num_layers = 2, .bidirectional = true), true,
                false);
    check_layer("lstm_first", tn_nn_lstm(3, 4, .batch_first = true), true,
                true);
    check_layer("lstm_proj",
                tn_nn_lstm(3, 4, .bidirectional = true, .proj_size = 2), true,
                false);
    check_padding();
    check_equal();
    check_mistakes();
    return done_testing();
}
