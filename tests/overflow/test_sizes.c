/* Sizes that overflow when they are multiplied, in each call that does so: the
 * call must fail with a message, and must not access memory. */
#include <base/memory.h>
#include <tap.h>
#include <tenon/tenon.h>
#include <unistd.h>

static const int64_t b61 = INT64_C(1) << 61, b62 = INT64_C(1) << 62;

/* Checks that the call was rejected with this message. */
static void told(tn_status code, const char *message)
{
    if (is_str(tn_error(), message, "refused: %s", message))
        is_int(tn_error_code(), code, "with its code");
    tn_error_clear();
}

static tn_tensor *expanded(tn_dtype dtype, int64_t size)
{
    return tn_expand(tn_zeros(tn_dims(1), .dtype = dtype), tn_dims(size));
}

static void test_helpers(void)
{
    is_int(tn__size_add(INT64_MAX, 1), INT64_MAX, "a sum saturates");
    is_int(tn__size_add(INT64_MIN, -1), INT64_MIN, "below, too");
    is_int(tn__size_sub(-2, INT64_MAX), INT64_MIN, "and a difference");
    is_int(tn__size_mul(-3, b62), INT64_MIN, "and a product");
    is_int(tn__size_mul(3, 5), 15, "one that fits is exact");
    ok(tn__size_bytes(b61 + 1, 8) == SIZE_MAX &&
           tn__size_bytes(-1, 1) == SIZE_MAX,
       "a dtype without bytes has the most elements");
    ok(tn__size_bytes(3, 8) == 24, "3 of 8 bytes are 24");
    is_int(tn__size_from_double(1e300), INT64_MAX, "1e300 is the greatest");
    is_int(tn__size_from_double(-1e300), INT64_MIN, "-1e300 the least");
    is_int(tn__size_from_double((double)NAN), 0, "NaN is 0");
    ok(!tn__alloc_many(b61, 16), "no allocation has 2^65 bytes");
    told(TN_ERR_MEMORY,
         "out of memory: the requested bytes exceed the address space");
    ok(!tn__alloc_many(-1, 1), "and none -1");
    tn_error_clear();
}

static void test_arrays(void)
{
    char bytes[8];
    tn_tensor_to_array(expanded(TN_I64, b61 + 1), bytes, sizeof bytes);
    told(TN_ERR_ARGUMENT, "tensor_to_array: 2305843009213693953 elements of "
                          "int64 have more bytes than an array can have");
    tn_tensor_to_array(expanded(TN_F32, b62), bytes, 0);
    told(TN_ERR_ARGUMENT,
         "tensor_to_array: 4611686018427387904 elements of float32 have more "
         "bytes than an array can have");
    tn_tensor_set_array(expanded(TN_F32, b62), bytes, 0);
    told(TN_ERR_ARGUMENT, "tensor_set_array: 4611686018427387904 elements of "
                          "float32 have more bytes than an array can have");
    tn_tensor_to_array(expanded(TN_F32, b62), bytes, SIZE_MAX);
    ok(tn_error(), "not even if the caller passes such a size");
    tn_error_clear();
}

static void test_operators(void)
{
    tn_tensor *big = expanded(TN_F32, b62), *few = tn_arange(0, 5, 1.0);
    tn_cat((tn_tensor *[]){few, big, big, big, big}, 5, 0);
    told(TN_ERR_SHAPE, "cat: an operand of shape (4611686018427387904,) has "
                       "more than 2^56 numbers, the limit of devices");
    tn_sum(big);
    told(TN_ERR_SHAPE, "sum: an iteration over (4611686018427387904,) has more "
                       "than 2^56 numbers, the limit of devices");
    tn_dot(big, big);
    told(TN_ERR_SHAPE, "dot: an operand of shape (4611686018427387904,) has "
                       "more than 2^56 numbers, the limit of devices");
    tn_mse_loss(expanded(TN_F32, b61), tn_ones(tn_dims(3, 1)));
    told(TN_ERR_SHAPE,
         "mse_loss: an iteration over (3, 2305843009213693952) has more than "
         "2^56 numbers, the limit of devices");
    tn_kron(few, big);
    ok(tn_error(), "kron is refused: %s", tn_error());
    tn_error_clear();
    tn_combinations(few, .r = (int)INT32_MAX);
    ok(!tn_error(), "of 5 elements there are no combinations of 2^31");
    tn_bincount(tn_full(tn_dims(1), tn_scalar_int(INT64_MAX)));
    told(TN_ERR_ARGUMENT,
         "bincount: input has the value 9223372036854775807; the result, one "
         "element for each integer up to it, would be too large");
    ok(tn_select(big, 0, -1), "a view of so many elements is none the worse");
    is_int(tn_tensor_numel(big), b62,
           "and the message says how many there are");
}

static int get_one(void *context, int64_t i, tn_tensor **fields)
{
    (void)context, (void)i;
    fields[0] = tn_ones(tn_dims(1));
    return 1;
}

static void test_data(void)
{
    const tn_dataset_class huge = {sizeof huge, b61 + 100, get_one, NULL};
    const int64_t order[] = {0, 1, 2};
    tn_tensor *fields[TN_MAX_FIELDS];
    tn_dataset *set = tn_dataset_new(&huge, NULL);
    ok(set, "a set may say that it has 2^61 + 100 samples");
    tn_loader_new(set, .batch_size = 4, .shuffle = true);
    told(TN_ERR_ARGUMENT, "loader_new: the set's count is 2305843009213694052; "
                          "expected at most 281474976710656");
    tn_dataset_shuffle(set, 1);
    told(TN_ERR_ARGUMENT,
         "dataset_shuffle: the set's count is "
         "2305843009213694052; expected at most 281474976710656");
    tn_loader_new(set, .order = order, .order_count = b61 + 1);
    told(TN_ERR_ARGUMENT, "loader_new: order_count is 2305843009213693953; "
                          "expected at most 281474976710656");
    tn_dataset_subset(set, order, b61 + 2);
    told(TN_ERR_ARGUMENT, "dataset_subset: count is 2305843009213693954; "
                          "expected at most 281474976710656");
    tn_dataset_batch(set, order, b61 + 2, fields);
    told(TN_ERR_ARGUMENT,
         "dataset_batch: count is 2305843009213693954; expected at most "
         "281474976710656");
    tn_loader_new(tn_dataset_from_tensors(expanded(TN_F32, b61 + 1), NULL));
    told(TN_ERR_ARGUMENT, "loader_new: the set's count is 2305843009213693953; "
                          "expected at most 281474976710656");
    tn_loader *loader =
        tn_loader_new(tn_dataset_from_tensors(tn_ones(tn_dims(3)), NULL),
                      .batch_size = INT64_MAX);
    int batches = 0;
    TN_EACH_BATCH (batch, loader)
        batches += batch.count == 3;
    is_int(batches, 1, "a batch of at most 2^63 - 1 samples has all three");
    tn_text_decode(tn_text_from_string("abc"), expanded(TN_I64, b61 + 1));
    ok(tn_error_code() == TN_ERR_MEMORY, "2^61 + 1 ids are not decoded");
    tn_error_clear();
}

static void test_files(void)
{
    char path[64];
    snprintf(path, sizeof path, "sizes-test-%ld.tmp", (long)getpid());
    const char *names[] = {"a", "b"};
    tn_tensor *half = expanded(TN_U8, b62), *all = expanded(TN_F32, b62);
    tn_safetensors_save(path, names, &all, 1, NULL, 0);
    told(TN_ERR_ARGUMENT,
         "safetensors_save: tensor \"a\" of "
         "4611686018427387904 elements has more bytes than a file can have");
    tn_safetensors_save(path, names, (tn_tensor *[]){half, half}, 2, NULL, 0);
    told(TN_ERR_ARGUMENT,
         "safetensors_save: tensor \"b\" of "
         "4611686018427387904 elements has more bytes than a file can have");
    ok(access(path, F_OK) != 0, "and no file is left");
}

int main(void)
{
    plan_later();
    test_helpers();
    static const char *const devices[] = {"reference", "cpu", "opencl"};
    for (int d = 0; d < 3; d++) {
        tn_device *device = tn_device_open(devices[d]);
        if (!device) {
            skip(1, tn_error());
            tn_error_clear();
            continue;
        }
        tn_device_set(device);
        note("on %s", tn_device_name(device));
        test_arrays();
        test_operators();
        test_data();
        test_files();
    }
    return done_testing();
}
