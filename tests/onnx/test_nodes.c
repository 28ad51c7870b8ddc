/* test_nodes.c: tests operators in models of one node, for features that models
 * use seldom, or that this library computes in its own way. */
#include <onnx/scratch.h>
#include <tenon/onnx.h>

static const int64_t one[] = {1};

/* Runs a node with the inputs a, b, c ... and the output y. */
static tn_tensor *run_node(message *node, int opset, tn_tensor *const *in,
                           int count)
{
    static const char *const name[] = {"a", "b", "c", "d", "e"};
    message model = {0}, graph = {0}, import = {0};
    tn_tensor *y = NULL;
    put_text(&import, 1, "com.microsoft");
    put_number(&import, 2, 1);
    put_message(&model, 8, &import);
    for (int i = 0; i < count; i++) {
        const tn_dtype dtype = tn_tensor_dtype(in[i]);
        add_value(&graph, GRAPH_INPUT, name[i],
                  dtype == TN_F32 ? 1 : dtype == TN_I32 ? 6 : 7, -1, NULL);
    }
    put_message(&graph, GRAPH_NODE, node);
    add_value(&graph, GRAPH_OUTPUT, "y", 1, -1, NULL);
    finish_model(&model, &graph, opset);
    save(&model, file("node.onnx"));
    tn_module *net = tn_onnx_open(path);
    if (net)
        tn_onnx_run(net, in, count, &y, 1);
    return y;
}

static tn_tensor *ints(int64_t x)
{
    return tn_full(tn_dims(1), x, .dtype = TN_I64);
}

/* Tests rarely used features. The expected results are those of ONNX
 * Runtime. */
static void check_nodes(void)
{
    tn_tensor *x = tn_arange(1, 5, 1, .dtype = TN_F32);
    message node = make_node("Slice", "a b c d e", "y");
    tn_tensor *y = run_node(&node, 17,
                            (tn_tensor *[]){x, ints(-9), ints(INT64_MIN),
                                            ints(0), ints(-1)}, 5);
    ok(HOLDS(y, 1), "Slice backwards from in front of the first element");

    node = make_node("Einsum", "a", "y");
    attr_text(&node, "equation", "i->");
    y = run_node(&node, 17, (tn_tensor *[]){tn_to_dtype(x, TN_I32)}, 1);
    ok(y && tn_tensor_dtype(y) == TN_I32, "Einsum of int32 is int32");
    ok(HOLDS(y, 10), "and the sum");

    node = make_node("ReduceSumSquare", "a", "y");
    attr_int(&node, "noop_with_empty_axes", 1);
    y = run_node(&node, 18, &x, 1);
    ok(HOLDS(y, 1, 4, 9, 16), "ReduceSumSquare over no axes squares");

    node = make_node("Resize", "a b", "y");
    y = run_node(&node, 10,
                 (tn_tensor *[]){x, tn_full(tn_dims(1), 0.7, .dtype = TN_F32)},
                 2);
    ok(HOLDS(y, 1, 3), "Resize of opset 10 takes the element above");

    node = make_node("InstanceNormalization", "a b c", "y");
    tn_tensor *two = tn_full(tn_dims(4), 2, .dtype = TN_F32);
    y = run_node(&node, 17,
                 (tn_tensor *[]){tn_reshape(x, tn_dims(1, 4, 1)), two, x}, 3);
    ok(HOLDS(y, 1, 2, 3, 4),
       "InstanceNormalization of one element is the bias");

    node = make_node("Hardmax", "a", "y");
    y = run_node(&node, 17, (tn_tensor *[]){tn_zeros(tn_dims(2, 0))}, 1);
    ok(y && tn_tensor_numel(y) == 0 && !tn_error(), "Hardmax of nothing");

    node = make_node("Add", "a b c", "y");
    ok(!run_node(&node, 17, (tn_tensor *[]){x, x, x}, 3) &&
           says("takes 2 inputs and at most 1 outputs"),
       "a wrong number of inputs");
    node = make_node("Add", "- a", "y");
    ok(!run_node(&node, 17, &x, 1) && says("input 0 is left out"),
       "an input that is left out");
    node = make_node("ScatterND", "a b c", "y");
    attr_text(&node, "reduction", "max");
    const int64_t place[] = {0, 0, 1, -1}, outside[] = {0, 2};
    tn_tensor *square = tn_reshape(x, tn_dims(2, 2));
    y = run_node(&node, 18,
                 (tn_tensor *[]){square,
                                 tn_tensor_from_array(place, TN_I64,
                                                      tn_dims(2, 2)),
                                 tn_full(tn_dims(2), 3.5, .dtype = TN_F32)},
                 3);
    ok(HOLDS(y, 3.5, 2, 3, 4), "ScatterND of maxima");
    node = make_node("ScatterND", "a b c", "y");
    attr_text(&node, "reduction", "max");
    y = run_node(&node, 18,
                 (tn_tensor *[]){square,
                                 tn_tensor_from_array(outside, TN_I64,
                                                      tn_dims(1, 2)),
                                 tn_full(tn_dims(1), 9, .dtype = TN_F32)},
                 3);
    tn_tensor *sum = tn_error() ? NULL : tn_sum(y);
    ok((!sum || (tn_item(sum), tn_error())) && says("2 at position"),
       "an index that is out of range in its dimension");

    node = make_node("GatherND", "a b", "y");
    ok(!run_node(&node, 17,
                 (tn_tensor *[]){x, tn_zeros(tn_dims(2, 0), .dtype = TN_I64)},
                 2) &&
           says("indices select along 0 dimensions"),
       "indices without elements");

    tn_tensor *cell = tn_ones(tn_dims(1, 1, 1));
    const int32_t lengths[] = {2, -1};
    for (int i = 0; i < 2; i++) {
        node = make_node("RNN", "a b c - d", "y");
        ok(!run_node(&node, 17,
                     (tn_tensor *[]){cell, cell, cell,
                                     tn_tensor_from_array(&lengths[i], TN_I32,
                                                          tn_dims(1))},
                     4) &&
               says("expected 1 from 0 to 1 (the length of X)"),
           "a sequence of %d of 1 steps", lengths[i]);
    }
}

static void attr_ints(message *node, const char *name, const int64_t *x,
                      int count)
{
    message a = {0};
    put_text(&a, 1, name);
    for (int i = 0; i < count; i++)
        put_number(&a, 8, (uint64_t)x[i]);
    put_number(&a, 20, 7);
    put_message(node, 5, &a);
}
#define ATTR_INTS(node, name, ...)                                             \
    attr_ints(node, name, (int64_t[]){__VA_ARGS__},                            \
              (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)))

/* Returns whether a and b are equal up to rounding. */
static bool is_near(tn_tensor *a, tn_tensor *b, double tolerance)
{
    const double worst = tn_item(tn_amax(tn_abs(tn_sub(a, b))));
    if (tn_error() || !(worst <= tolerance))
        note("the difference is %g: %s", worst, tn_error() ? tn_error() : "");
    tn_error_clear();
    return worst <= tolerance;
}

/* A convolution with few output positions is computed as a product. */
static void check_few_positions(void)
{
    static const struct {
        int64_t size[2], kernel[2], stride;
    } cases[] = {{{1, 6}, {1, 3}, 1}, {{3, 3}, {3, 3}, 2}, {{1, 1}, {1, 1}, 1},
                 {{4, 5}, {4, 2}, 2}};
    for (int i = 0; i < 4; i++) {
        const int64_t *k = cases[i].kernel, *s = cases[i].size;
        tn_tensor *w = tn_randn(tn_dims(3, 5, k[0], k[1])),
                  *b = tn_randn(tn_dims(3)),
                  *x = tn_randn(tn_dims(2, 5, s[0], s[1]));
        tn_requires_grad(w);
        tn_requires_grad(x);
        message node = make_node("Conv", "a b c", "y");
        ATTR_INTS(&node, "pads", 0, 1, 0, 0);
        ATTR_INTS(&node, "strides", cases[i].stride, cases[i].stride);
        tn_tensor *y = run_node(&node, 17, (tn_tensor *[]){x, w, b}, 3);
        tn_tensor *want =
            tn_conv2d(tn_pad(x, tn_dims(1, 0)), w, b,
                      .stride = cases[i].stride);
        /* sums of 45 products of numbers near 1 */
        ok(is_near(y, want, 1e-5), "Conv with %lld positions",
           (long long)(tn_tensor_size(want, 2) * tn_tensor_size(want, 3)));
        tn_backward(tn_sum(tn_mul(y, y)));
        tn_tensor *have_w = tn_clone(tn_tensor_grad(w)),
                  *have_x = tn_clone(tn_tensor_grad(x));
        tn_tensor_set_grad(w, NULL);
        tn_tensor_set_grad(x, NULL);
        tn_backward(tn_sum(tn_mul(want, want)));
        ok(is_near(have_w, tn_tensor_grad(w), 1e-4) &&
               is_near(have_x, tn_tensor_grad(x), 1e-4),
           "with the gradients of tn_conv2d");
    }
}

static void check_deform(void)
{
    tn_tensor *x = tn_randn(tn_dims(2, 4, 6, 5)),
              *w = tn_randn(tn_dims(6, 2, 3, 3)), *b = tn_randn(tn_dims(6)),
              *mask = tn_full(tn_dims(2, 18, 6, 5), 0.5);
    /* an offset of (1, 0) everywhere reads the row below */
    tn_tensor *zero = tn_zeros(tn_dims(2, 2 * 9, 1, 6, 5)),
              *offset = tn_reshape(
                  tn_cat((tn_tensor *[]){tn_ones_like(zero), zero}, 2, 2),
                  tn_dims(2, 36, 6, 5));
    message node = make_node("DeformConv", "a b c d e", "y");
    ATTR_INTS(&node, "pads", 1, 1, 1, 1);
    attr_int(&node, "group", 2);
    attr_int(&node, "offset_group", 2);
    tn_tensor *y =
        run_node(&node, 22, (tn_tensor *[]){x, w, offset, b, mask}, 5);
    tn_tensor *below = tn_pad(x, tn_dims(1, 1, 0, 2));
    tn_tensor *want = tn_add(
        tn_mul_scalar(tn_conv2d(below, w, NULL, .groups = 2), 0.5),
        tn_reshape(b, tn_dims(6, 1, 1)));
    /* positions in [-1, 1] have an error of 1e-7, 3e-7 of a pixel */
    ok(is_near(y, want, 1e-5), "DeformConv with offsets of one row");
    node = make_node("DeformConv", "a b c", "y");
    ok(!run_node(&node, 22, (tn_tensor *[]){x, w, offset}, 3) &&
           says("W must have 4 channels and offset 18"),
       "DeformConv with offsets of another size");
}

static void check_regions(void)
{
    tn_tensor *x = tn_reshape(tn_arange(0, 32, 1, .dtype = TN_F32),
                              tn_dims(2, 1, 4, 4));
    /* image, x1, y1, x2, y2 */
    static const float regions[] = {1, 0, 0, 3, 3, 0, 1, 1, 1, 2, 0, 5, 5, 6, 6};
    tn_tensor *rois = tn_tensor_from_array(regions, TN_F32, tn_dims(3, 5));
    message node = make_node("MaxRoiPool", "a b", "y");
    ATTR_INTS(&node, "pooled_shape", 2, 2);
    tn_tensor *y = run_node(&node, 22, (tn_tensor *[]){x, rois}, 2);
    ok(HOLDS(y, 21, 23, 29, 31, 5, 5, 9, 9, 0, 0, 0, 0),
       "MaxRoiPool: four cells, repeated pixels, and a region outside");
    static const float wrong[] = {2, 0, 0, 3, 3};
    node = make_node("MaxRoiPool", "a b", "y");
    ATTR_INTS(&node, "pooled_shape", 2, 2);
    rois = tn_tensor_from_array(wrong, TN_F32, tn_dims(1, 5));
    ok(!run_node(&node, 22, (tn_tensor *[]){x, rois}, 2) &&
           says("rois[0][0] is 2, but X has 2 images"),
       "a region of an image that is missing");
}

/* Tests the example in the documentation of ONNX, with single numbers and with
 * pairs. */
static void check_tf_idf(void)
{
    static const int64_t x[] = {1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8};
    for (int skips = 0; skips < 2; skips++) {
        message node = make_node("TfIdfVectorizer", "a", "y");
        attr_text(&node, "mode", "TF");
        attr_int(&node, "min_gram_length", 2);
        attr_int(&node, "max_gram_length", 2);
        attr_int(&node, "max_skip_count", skips ? 5 : 0);
        ATTR_INTS(&node, "ngram_counts", 0, 4);
        ATTR_INTS(&node, "ngram_indexes", 0, 1, 2, 3, 4, 5, 6);
        ATTR_INTS(&node, "pool_int64s", 2, 3, 5, 4, 5, 6, 7, 8, 6, 7);
        tn_tensor *y = run_node(
            &node, 17,
            (tn_tensor *[]){tn_tensor_from_array(x, TN_I64, tn_dims(12))}, 1);
        ok(skips ? HOLDS(y, 0, 0, 0, 0, 1, 3, 1) : HOLDS(y, 0, 0, 0, 0, 1, 1, 1),
           "TfIdfVectorizer %s skips", skips ? "with" : "without");
    }
    message node = make_node("TfIdfVectorizer", "a", "y");
    attr_text(&node, "mode", "TF");
    attr_int(&node, "min_gram_length", 1);
    attr_int(&node, "max_gram_length", 1);
    attr_int(&node, "max_skip_count", 0);
    ATTR_INTS(&node, "ngram_counts", 3);
    ATTR_INTS(&node, "ngram_indexes", 0);
    ATTR_INTS(&node, "pool_int64s", 2);
    ok(!run_node(&node, 17, (tn_tensor *[]){ints(2)}, 1) &&
           says("ngram_counts must hold increasing indices into pool_int64s"),
       "positions outside of the pool");
}

/* A transform and its inverse give the input, also with complex numbers. */
static void check_transforms(void)
{
    for (int64_t n = 1; n < 7; n++)
        for (int complex = 0; complex < 2; complex++) {
            tn_tensor *x = tn_randn(tn_dims(2, n, 1 + complex));
            message node = make_node("DFT", "a", "y");
            tn_tensor *y = run_node(&node, 20, &x, 1);
            ok(y && tn_tensor_size(y, 1) == n && tn_tensor_size(y, 2) == 2,
               "DFT of %lld points", (long long)n);
            node = make_node("DFT", "a", "y");
            attr_int(&node, "inverse", 1);
            tn_tensor *z = run_node(&node, 20, &y, 1);
            if (!complex)
                x = tn_cat((tn_tensor *[]){x, tn_zeros_like(x)}, 2, 2);
            ok(is_near(z, x, 1e-5), "and back");
        }
    tn_tensor *x = tn_randn(tn_dims(2, 5, 1));
    message node = make_node("DFT", "a", "y");
    attr_int(&node, "onesided", 1);
    tn_tensor *half = run_node(&node, 20, &x, 1);
    ok(half && tn_tensor_size(half, 1) == 3, "the half of a real transform");
    node = make_node("DFT", "a b", "y");
    attr_int(&node, "onesided", 1);
    attr_int(&node, "inverse", 1);
    tn_tensor *y = run_node(&node, 20, (tn_tensor *[]){half, ints(5)}, 2);
    ok(y && is_near(y, x, 1e-5), "gives the real input back");
}

static void check_borders(void)
{
    tn_tensor *x = tn_arange(1, 4, 1, .dtype = TN_F32);
    static const int64_t pads[] = {5, 4};
    tn_tensor *p = tn_tensor_from_array(pads, TN_I64, tn_dims(2));
    static const struct {
        const char *mode;
        double want[12];
    } cases[] = {{"reflect", {2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3}},
                 {"edge", {1, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3}},
                 {"wrap", {2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1}}};
    for (int i = 0; i < 3; i++) {
        message node = make_node("Pad", "a b", "y");
        attr_text(&node, "mode", cases[i].mode);
        tn_tensor *y = run_node(&node, 19, (tn_tensor *[]){x, p}, 2);
        ok(holds(y, cases[i].want, 12), "Pad by more than the size: %s",
           cases[i].mode);
    }
}

/* A constant index of one element makes a view. Errors name the index as it is
 * written. */
static void check_gather(void)
{
    static const int64_t index[] = {-1, 3};
    for (int i = 0; i < 4; i++) {
        message model = {0}, graph = {0};
        add_tensor(&graph, "i", 7, i & 1, one, &index[i / 2], 8);
        add_value(&graph, GRAPH_INPUT, "x", 1, 1, (int64_t[]){3});
        add_node(&graph, "Gather", "x i", "y");
        add_value(&graph, GRAPH_OUTPUT, "y", 1, -1, one);
        finish_model(&model, &graph, 17);
        save(&model, file("node.onnx"));
        tn_tensor *y = tn_forward(tn_onnx_open(path),
                                  tn_arange(1, 4, 1, .dtype = TN_F32));
        if (i < 2)
            ok(tn_tensor_ndim(y) == (i & 1) && HOLDS(y, 3),
               "Gather with the constant -1");
        else
            ok(!y && says("indices has 3; expected -3 to 2"),
               "Gather with a constant that is out of range");
    }
    message node = make_node("Gather", "a b", "y");
    static const int64_t far[] = {0, -4};
    tn_tensor *y = run_node(
        &node, 17,
        (tn_tensor *[]){tn_arange(1, 4, 1, .dtype = TN_F32),
                        tn_tensor_from_array(far, TN_I64, tn_dims(2))},
        2);
    tn_tensor *sum = tn_error() ? NULL : tn_sum(y);
    ok((!sum || (tn_item(sum), tn_error())) && says("-4"),
       "an index that the model computes is named as it is");
}

/* Tests that a long sequence runs in one call of Tenon's layer and a short one
 * step by step, with and without a bias. */
static void check_recurrent(void)
{
    static const struct {
        const char *op;
        int64_t gates;
    } cases[] = {{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}};
    for (int i = 0; i < 6; i++) {
        const int64_t rows = 3 * cases[i % 3].gates;
        tn_tensor *x = tn_randn(tn_dims(12, 2, 5)),
                  *w = tn_randn(tn_dims(1, rows, 5)),
                  *r = tn_randn(tn_dims(1, rows, 3)),
                  *b = tn_randn(tn_dims(1, 2 * rows)), *y[2];
        for (int j = 0; j < 2; j++) {
            message node =
                make_node(cases[i % 3].op, i < 3 ? "a b c" : "a b c d", "y");
            if (i % 3 == 1)
                attr_int(&node, "linear_before_reset", 1);
            tn_tensor *in[] = {j ? tn_narrow(x, 0, 0, 4) : x, w, r, b};
            y[j] = run_node(&node, 14, in, i < 3 ? 3 : 4);
        }
        /* the gates saturate, so errors of 1e-7 do not grow */
        ok(is_near(tn_narrow(y[0], 0, 0, 4), y[1], 1e-5),
           "%s %s bias: 12 steps begin as 4 steps do", cases[i % 3].op,
           i < 3 ? "without" : "with");
    }
}

/* An LSTM of com.microsoft, whose inputs 4 to 7 may be left out, and which does
 * not round its inputs to 8 bits. */
static void check_quantised_lstm(void)
{
    static const int8_t w[] = {1, 2, -3, 4};
    static const float scale[] = {0.5f};
    static const int8_t zero[] = {1};
    static const int64_t shape[] = {1, 1, 4};
    message model = {0}, graph = {0}, import = {0};
    add_tensor(&graph, "w", 3, 3, shape, w, sizeof w);
    add_tensor(&graph, "s", 1, 1, one, scale, sizeof scale);
    add_tensor(&graph, "z", 3, 1, one, zero, sizeof zero);
    add_value(&graph, GRAPH_INPUT, "x", 1, 3, (int64_t[]){-1, 1, 1});
    message node = make_node("DynamicQuantizeLSTM", "x w w - - - - - s z s z",
                             "y");
    put_text(&node, 7, "com.microsoft");
    put_message(&graph, GRAPH_NODE, &node);
    add_value(&graph, GRAPH_OUTPUT, "y", 1, -1, NULL);
    put_text(&import, 1, "com.microsoft");
    put_number(&import, 2, 1);
    put_message(&model, 8, &import);
    finish_model(&model, &graph, 17);
    save(&model, file("node.onnx"));
    /* i, o, f, c have the weights 0, 0.5, -2, 1.5: with x = 1,
     * tanh(sigmoid(0) tanh(1.5)) sigmoid(0.5) */
    ok(HOLDS(tn_forward(tn_onnx_open(path), tn_ones(tn_dims(1, 1, 1))),
             0.263931),
       "DynamicQuantizeLSTM without its optional inputs");
}

/* The forms of mask_index of com.microsoft's Attention hide the same keys. */
static void check_masks(void)
{
    static const int32_t ends[] = {3, 2}, ranges[] = {3, 2, 1, 0},
                         from_ends[] = {1, 1, 1, 1, 1, 0},
                         from_ranges[] = {0, 1, 1, 1, 1, 0};
    tn_manual_seed(8);
    tn_tensor *in[] = {tn_randn(tn_dims(2, 3, 4)), tn_randn(tn_dims(4, 12)),
                       tn_randn(tn_dims(12)), NULL};
    tn_tensor *mask[] = {
        tn_tensor_from_array(ends, TN_I32, tn_dims(2)),
        tn_tensor_from_array(from_ends, TN_I32, tn_dims(2, 3)),
        tn_tensor_from_array(ranges, TN_I32, tn_dims(4)),
        tn_tensor_from_array(from_ranges, TN_I32, tn_dims(2, 3)), NULL, NULL};
    mask[4] = tn_contiguous(tn_expand(tn_unsqueeze(mask[3], 1),
                                      tn_dims(2, 3, 3)));
    mask[5] = tn_ones(tn_dims(3), .dtype = TN_I32);
    tn_tensor *y[6];
    for (int i = 0; i < 6; i++) {
        message node = make_node("Attention", "a b c d", "y");
        attr_int(&node, "num_heads", 2);
        put_text(&node, 7, "com.microsoft");
        in[3] = mask[i];
        y[i] = run_node(&node, 17, in, 4);
    }
    ok(!y[5] && says("with batch = 2 and time = 3"), "a mask of another shape");
    ok(is_near(y[0], y[1], 1e-6), "mask_index as ends of keys");
    ok(is_near(y[2], y[3], 1e-6), "as ends and starts");
    ok(is_near(y[4], y[3], 1e-6), "and by query");
    ok(!is_near(y[1], y[3], 1e-3), "these two masks differ");
}

int main(void)
{
    plan_later();
    if (!mkdtemp(scratch))
        bail_out("no scratch folder");
    check_nodes();
    check_few_positions();
    check_deform();
    check_regions();
    check_tf_idf();
    check_transforms();
    check_borders();
    check_gather();
    check_recurrent();
    check_quantised_lstm();
    check_masks();
    unlink(file("node.onnx"));
    rmdir(scratch);
    return done_testing();
}
