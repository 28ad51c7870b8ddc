/* The special functions of the language at chosen arguments, beside values made
 * with 40 digits: special_values.def. In float32 they are float64's, rounded. */
#include "../tap.h"
#include "kernel/kernel.h"

#include <math.h>

static const struct value {
    const char *name;
    double x, y, want, limit;
} values[] = {
#define VALUE(name, x, y, want, limit) {name, x, y, want, limit},
#include "special_values.def"
#undef VALUE
};

static bool run(const struct value *v, tn_dtype type, double *out)
{
    static const int64_t stride[1] = {1}, extent[1] = {1};
    bool two = v->y != 0;
    char text[64];
    snprintf(text, sizeof text, two ? "f(x, y) = %s(x, y)" : "f(x) = %s(x)",
             v->name);
    const tn_dtype dtype[2] = {type, type};
    tn__def *def = tn__def_parse(text, v->name);
    const tn__kernel *kernel = def ? tn__def_kernel(def, dtype) : NULL;
    const tn_program *program = kernel ? tn__kernel_program(kernel) : NULL;
    if (!program)
        return false;
    double wide[3] = {v->x, v->y, 0};
    float narrow[3] = {(float)v->x, (float)v->y, 0};
    void *memory[3];
    for (int i = 0; i < 3; i++) {
        int at = !two && i == 1 ? 2 : i;
        memory[i] = type == TN_F64 ? (void *)&wide[at] : (void *)&narrow[at];
    }
    tn_launch_operand operand[3] = {
        {.stride = stride}, {.stride = stride}, {.stride = stride}};
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                        .extent = extent, .operand = operand};
    tn_fault fault = {.size = sizeof fault};
    if (tn__interpret(program, &launch, memory, &fault) != TN_OK)
        return false;
    *out = type == TN_F64 ? wide[2] : (double)narrow[2];
    return true;
}

/* How far got is from want in the spacing of `digits` binary digits there. */
static double distance(double got, double want, int digits)
{
    int exponent;
    frexp(want, &exponent);
    return fabs(got - want) / ldexp(1, exponent - digits);
}

int main(void)
{
    plan_later();
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const struct value *v = &values[i];
        double wide = NAN, narrow = NAN;
        bool ran = run(v, TN_F64, &wide) && run(v, TN_F32, &narrow);
        ok(ran && distance(wide, v->want, 53) <= v->limit,
           "%s(%g, %g) in float64 is within %g ulp: %.2f", v->name, v->x, v->y,
           v->limit, distance(wide, v->want, 53));
        ok(ran && distance(narrow, v->want, 24) <= 0.51,
           "in float32 rounded: %.2f", distance(narrow, v->want, 24));
    }
    return done_testing();
}
