/* Tests names, sizes and promotion of dtypes. */
#include <tenon/base.h>

#include "tap.h"

/* torch.promote_types of PyTorch 2. Rows and columns are in the order of the
 * dtypes' codes: f32 f64 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 bool. Each
 * dtype is one letter: f d h b 4 5 l i s c u ?. '-' means that promote_types
 * raises. */
static const char letters[] = "-fdhb45lisc" "u?";
static const char *const promoted[] = {
    "fdff--ffffff", /* float32 */
    "dddd--dddddd", /* float64 */
    "fdhf--hhhhhh", /* float16 */
    "fdfb--bbbbbb", /* bfloat16 */
    "----4-------", /* float8_e4m3fn */
    "-----5------", /* float8_e5m2 */
    "fdhb--llllll", /* int64 */
    "fdhb--liiiii", /* int32 */
    "fdhb--lissss", /* int16 */
    "fdhb--liscsc", /* int8 */
    "fdhb--lissuu", /* uint8 */
    "fdhb--liscu?", /* bool */
};

int main(void)
{
    plan_later();
    is_str(tn_dtype_name(TN_F32), "float32", "PyTorch's name");
    is_str(tn_dtype_name(0), "none", "no dtype");
    is_str(tn_dtype_name(TN_DTYPE_END), "none", "past the end");
    is_str(tn_dtype_name(0xffffffffu), "none", "far past the end");
    for (tn_dtype a = 1; a < TN_DTYPE_END; a++) {
        is_int(tn_dtype_from_name(tn_dtype_name(a)), a, "%s has its name",
               tn_dtype_name(a));
        for (tn_dtype b = 1; b < TN_DTYPE_END; b++) {
            char want = promoted[a - 1][b - 1];
            is_int(tn_dtype_promote(a, b), strchr(letters, want) - letters,
                   "%s with %s", tn_dtype_name(a), tn_dtype_name(b));
        }
    }
    is_int(tn_dtype_promote(0, TN_F32), TN_DTYPE_NONE, "none with a dtype");
    is_int(tn_default_dtype(), TN_F32, "the default dtype");
    is_int(tn_default_dtype_set(TN_F64), TN_OK, "another default");
    is_int(tn_default_dtype(), TN_F64, "is used");
    is_int(tn_default_dtype_set(TN_I64), TN_ERR_DTYPE, "none of integers");
    is_str(tn_error(),
           "default_dtype_set: dtype is int64; expected float32, float64, "
           "float16 or bfloat16",
           "the message");
    tn_error_clear();
    is_int(tn_default_dtype_set(TN_F8E5M2), TN_ERR_DTYPE, "and no float8");
    tn_error_clear();
    is_int(tn_default_dtype(), TN_F64, "after an error it stays");
    tn_default_dtype_set(TN_F32);
    is_int(tn_dtype_from_name("f32"), TN_F32, "a short name");
    is_int(tn_dtype_from_name("bf16"), TN_BF16, "another");
    is_int(tn_dtype_from_name("long"), TN_I64, "a synonym");
    is_int(tn_dtype_from_name("float33"), TN_DTYPE_NONE, "no name");
    is_int(tn_dtype_from_name(NULL), TN_DTYPE_NONE, "NULL");
    is_int((int64_t)tn_dtype_bytes(TN_F16), 2, "bytes of a half");
    is_int((int64_t)tn_dtype_bytes(99), 0, "bytes of none");
    ok(tn_dtype_is_floating(TN_F8E5M2), "float8 is floating");
    ok(!tn_dtype_is_floating(TN_BOOL), "bool is not");
    ok(!tn_dtype_is_floating(99), "nor is a value that is no dtype");
    return done_testing();
}
