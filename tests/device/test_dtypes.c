/* The library respects the dtypes that a device reports: it passes no tensor of
 * another dtype and no program that computes in another dtype. A device whose
 * reports contradict each other is not opened. */
#include <tenon/tenon.h>

#include "device/device.h"
#include "plugins/folder.h"
#include "tap.h"

/* The dtypes that the fake device reports, as values of its options. */
static const char *storage, *registers;

static tn_device *fake(void)
{
    tn_log_set(NULL, NULL);
    if (storage)
        setenv("TENON_FAKE_STORAGE", storage, 1);
    if (registers)
        setenv("TENON_FAKE_REGISTERS", registers, 1);
    return tn_device_open("fake");
}

/* Returns a mask of dtypes as the string of an option. */
static const char *bits(uint32_t types)
{
    static char text[4][16];
    static int next;
    char *at = text[next++ % 4];
    snprintf(at, sizeof text[0], "%u", types);
    return at;
}

enum {
    F32 = 1u << TN_F32,
    F64 = 1u << TN_F64,
    I32 = 1u << TN_I32,
    I64 = 1u << TN_I64,
    BOOL = 1u << TN_BOOL,
    F8 = 1u << TN_F8E4M3,
    U8 = 1u << TN_U8,
    LATER = 1u << 20 /* a dtype that a later version might define */
};

static void open_it(void)
{
    tn_device *device = fake();
    printf("%s", device ? tn_device_name(device) : tn_error());
}

static void test_opening(void)
{
    static const struct {
        uint32_t storage, registers;
        const char *want;
    } cases[] = {
        {F32, F32, "fake:0"},
        {F32 | LATER, F32 | LATER, "fake:0"},
        {F32 | F8, F32, "fake:0"},
        {0, F32, "device_open: fake: it does not store float32 and compute "
                 "in it, as every device has to"},
        {F32 | I32, I32, "device_open: fake: it does not store float32 and "
                         "compute in it, as every device has to"},
        {F32 | F64, F32, "device_open: fake: it stores float64, but does "
                         "not compute in float64"},
        {F32 | U8, F32 | BOOL, "device_open: fake: it stores uint8, but "
                               "does not compute in int32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        storage = bits(cases[i].storage);
        registers = bits(cases[i].registers);
        const char *got = in_child(open_it);
        is_str(got, cases[i].want, "stores %s and computes in %s: %s", storage,
               registers, cases[i].want);
    }
}

static void tell(const char *name, const tn_tensor *x)
{
    printf("%s: %s\n", name, x ? "made" : tn_error());
    tn_error_clear();
}

/* Builds a program with registers of that type, in its own instructions or in a
 * function's. */
static void build(tn_device *device, tn_dtype dtype, bool in_function)
{
    static tn_kernel_ins own, of_fn;
    static tn_kernel_fn fn = {.ins_count = 1, .ins = &of_fn};
    static tn_program program = {.size = sizeof program, .ins_count = 1,
                                 .fn_count = 1, .ins = &own, .fn = &fn};
    own.dtype = of_fn.dtype = TN_F32;
    *(in_function ? &of_fn.dtype : &own.dtype) = (uint8_t)dtype;
    printf("%s: %s\n", tn_dtype_name(dtype),
           tn__device_built(device, &program) ? "built" : tn_error());
    tn_error_clear();
}

static void use_it(void)
{
    tn_device *device = fake(), *reference = tn_device_open("reference");
    tn_tensor *x = tn_zeros(tn_dims(3), .dtype = TN_F8E4M3,
                            .device = reference);
    const unsigned char bytes[3] = {0};
    tell("there", x);
    tell("to", tn_to(x, device));
    tn_device_set(device);
    tell("made", tn_empty(tn_dims(2), .dtype = TN_F8E4M3));
    tell("none", tn_empty(tn_dims(0), .dtype = TN_F8E5M2));
    tell("array", tn_tensor_from_array(bytes, TN_F8E4M3, tn_dims(3)));
    tell("wrapped", tn_tensor_wrap((void *)(uintptr_t)bytes, TN_U8,
                                   tn_dims(3), NULL, NULL));
    tn_tensor *y = tn_empty(tn_dims(3));
    tell("float32", y);
    tell("converted", tn_to_dtype(y, TN_F8E4M3));
    tell("compared", tn_isnan(y));
    build(device, TN_F64, true);
    build(device, TN_I32, false);
    build(device, TN_F32, false);
}

static void test_use(void)
{
    storage = bits(F32);
    registers = bits(F32);
    const char *got = in_child(use_it);
    is_str(got,
           "there: made\n"
           "to: to: fake:0 does not store float8_e4m3fn; use another dtype, "
           "or a device that does (tn_to)\n"
           "made: empty: fake:0 does not store float8_e4m3fn; use another "
           "dtype, or a device that does (tn_to)\n"
           "none: empty: fake:0 does not store float8_e5m2; use another "
           "dtype, or a device that does (tn_to)\n"
           "array: tensor_from_array: fake:0 does not store float8_e4m3fn; "
           "use another dtype, or a device that does (tn_to)\n"
           "wrapped: tensor_wrap: fake:0 does not store uint8; use another "
           "dtype, or a device that does (tn_to)\n"
           "float32: made\n"
           "converted: to_dtype: fake:0 does not store float8_e4m3fn; use "
           "another dtype, or a device that does (tn_to)\n"
           "compared: isnan: fake:0 does not store bool; use another dtype, "
           "or a device that does (tn_to)\n"
           "float64: program_build: fake:0 does not compute in float64; use "
           "another dtype, or a device that does (tn_to)\n"
           "int32: program_build: fake:0 does not compute in int32; use "
           "another dtype, or a device that does (tn_to)\n"
           "float32: built\n",
           "dtypes that it does not store or compute in are refused by name");
}

int main(void)
{
    char path[PATH_MAX];
    const char *built = getenv("TENON_PLUGIN_PATH");
    plan_later();
    folder_start();
    folder_add("all", "fake", "fake", NULL);
    snprintf(path, sizeof path, "%s/all:%s", folder_root, built ? built : "");
    setenv("TENON_PLUGIN_PATH", path, 1);
    test_opening();
    test_use();
    folder_end();
    return done_testing();
}
