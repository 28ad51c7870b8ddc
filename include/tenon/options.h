/* <tenon/options.h>: named options with documented defaults.
 *
 * An option that is left out has its default. An option that is written has the
 * value that is written, even if that is 0. In C, options are written by name
 * after the arguments:
 *
 *     tn_sum(x);                          all elements
 *     tn_sum(x, .dim = 0);                dimension 0
 *     tn_sum(x, .dims = tn_dims(0, 2), .keepdim = true);
 *
 * `.dim` is one number, `.dims` a list. The same holds for stride and strides,
 * padding and paddings, and so on; one number applies to every dimension.
 *
 * Mistakes are rejected (TN_ERR_ARGUMENT):
 *   - an option without a name: "sum: 1 is not an option: write tn_sum(input,
 *     .dim = 1)";
 *   - a name that the call does not have;
 *   - both the number and the list of one option;
 *   - an option without effect in this call: "optim_sgd: .dampening has no
 *     effect without momentum: give momentum, or leave .dampening out". Writing
 *     its default is allowed.
 *
 * Each macro calls a function that accepts a struct, for computed options and
 * for other languages. The struct is initialised with the defaults:
 *
 *     tn_sum_options o = TN_SUM_OPTIONS;                          C
 *     o.dim = 1;
 *     tn_tensor *y = tn_sum_with(x, &o);
 *
 *     tn_sum(x, {.dim = 1});                                      C++20
 *     tn_sum_options o; o.dim = 1; tn_sum(x, o);                  C++17
 *
 *     tn_options_init("sum", &o, sizeof o)                        the others
 *
 * NULL instead of a struct means the defaults.
 *
 * Threads: any thread may call these functions. A tn_options_type is constant.
 */
#ifndef TENON_OPTIONS_H
#define TENON_OPTIONS_H

#include <stddef.h>
#include <tenon/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- none ----------------------------------------------------------------
 * The values that mean "none", as the default of optional values. For pointers
 * it is NULL, for dtypes TN_DTYPE_NONE. */

/* TN_NONE_INT is in <tenon/base.h>. */
/* The value "none" of a double: a NaN with bits that arithmetic does not
 * produce. Other NaNs are values. */
#define TN_NONE_FLOAT __builtin_nan("0x6e6f6e65")
static inline bool tn_is_none_float(double x)
{
    const double none = TN_NONE_FLOAT;
    return __builtin_memcmp(&x, &none, sizeof x) == 0;
}
/* Initialises a tn_dims_list as "none". TN_SCALAR, in contrast, is an empty
 * list. */
#define TN_NONE_DIMS {-1, {0}}

/* ---- structs of options ---------------------------------------------------
 * Each struct begins with these two members:
 *
 *   given   the source text of the options in the call, such as ".dim = 1,
 *           .keepdim = true", which the macros write. "*" means that every member has been set.
 *           NULL is rejected, because the struct was not initialised.
 *   size    sizeof the struct in the caller's headers. A shorter struct comes
 *           from older headers: the missing members have their defaults. A
 *           longer one with "*" is rejected.
 */

/* Writes all defaults, size and given = "*" into a struct of options. name is
 * the call without tn_: "sum", "nn_conv2d", "optim_adam", "loader_new". bytes
 * is the size of the caller's struct. Fails with TN_ERR_ARGUMENT if there is no
 * such call, if bytes is too small for the first two members, or if it is
 * larger than this library's struct. */
TN_API tn_status tn_options_init(const char *name, void *options,
                                 size_t bytes);

/* Makes the last argument of a ..._with function from the options of a call,
 * which end with a comma if there are any. Without options it is NULL, because
 * clearing a struct would cost more than all other handling of options. */
#define TN__OPTIONS(type, ...)                                                \
    (TN__ANY(__VA_ARGS__)                                                     \
         ? &(type){__VA_ARGS__ .size = sizeof(type), .given = #__VA_ARGS__}   \
         : (const type *)0)
/* True if the arguments contain a comma. For this it takes the 65th item
 * of a list: the arguments, followed by 1, 1, ... and "?". The 65th item is "?"
 * if there is no comma, and 1 for up to 63 commas. With more commas it is one
 * of the arguments, none of which begins with "?". The arguments are expanded
 * only once, because expanding them twice would double their length at each
 * level of nested calls. */
#define TN__ANY(...)                                                          \
    (*TN__AT_65(__VA_ARGS__, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  \
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,      \
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,      \
    1, ?, ) != '?')
#define TN__AT_65(                                                            \
    _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16,    \
    _17, _18, _19, _20, _21, _22, _23, _24, _25, _26, _27, _28, _29, _30,     \
    _31, _32, _33, _34, _35, _36, _37, _38, _39, _40, _41, _42, _43, _44,     \
    _45, _46, _47, _48, _49, _50, _51, _52, _53, _54, _55, _56, _57, _58,     \
    _59, _60, _61, _62, _63, _64, at, ...) #at

/* TN_CALL_0 ... TN_CALL_6 define a call with that many arguments, and options:
 *     #define tn_nn_linear(...) TN_CALL_2(tn_nn_linear, __VA_ARGS__, )  */
#define TN_CALL_0(name, ...)                                                  \
    name##_with(&(name##_options){.given = #__VA_ARGS__,                      \
                                  .size = sizeof(name##_options),             \
                                  __VA_ARGS__})
#define TN_CALL_1(name, a, ...)                                               \
    name##_with(a, TN__OPTIONS(name##_options, __VA_ARGS__))
#define TN_CALL_2(name, a, b, ...)                                            \
    name##_with(a, b, TN__OPTIONS(name##_options, __VA_ARGS__))
#define TN_CALL_3(name, a, b, c, ...)                                         \
    name##_with(a, b, c, TN__OPTIONS(name##_options, __VA_ARGS__))
#define TN_CALL_4(name, a, b, c, d, ...)                                      \
    name##_with(a, b, c, d, TN__OPTIONS(name##_options, __VA_ARGS__))
#define TN_CALL_5(name, a, b, c, d, e, ...)                                   \
    name##_with(a, b, c, d, e, TN__OPTIONS(name##_options, __VA_ARGS__))
#define TN_CALL_6(name, a, b, c, d, e, f, ...)                                \
    name##_with(a, b, c, d, e, f, TN__OPTIONS(name##_options, __VA_ARGS__))

/* ---- options of your own --------------------------------------------------
 * A list of options is a macro with a row for each: type, name, default. The
 * struct, its defaults and its description for the library are made from it:
 *
 *     #define MY_BLOCK_OPTIONS_LIST(X)                                       \
 *         X(int64_t, groups, 1)                                              \
 *         X(bool, bias, true)
 *     TN_OPTIONS_STRUCT(my_block, MY_BLOCK_OPTIONS_LIST);
 *     tn_module *my_block_with(int64_t channels,
 *                              const my_block_options *options);
 *     #define my_block(...) TN_CALL_1(my_block, __VA_ARGS__, )
 *
 * and in the source file
 *
 *     TN_OPTIONS_TYPE(my_block, "my_block", "channels",
 *                     MY_BLOCK_OPTIONS_LIST)
 *     tn_module *my_block_with(int64_t channels,
 *                              const my_block_options *options)
 *     {
 *         my_block_options o;
 *         if (tn_options_take(my_block_type(), &o, options) < 0)
 *             return NULL;
 *
 * Types: bool, int, int64_t, uint64_t, double, tn_dtype, pointers and
 * tn_dims_list. A list option whose name is that of the option before it plus
 * an s ("stride", "strides") is the list form of that option: a call may give
 * only one of the two. */

/* One option of a type. Closed: the struct never changes. */
typedef struct tn_option {
    const char *name; /* name of the option: "dim" */
    uint16_t offset, bytes;
    uint8_t kind;     /* TN_OPTION_... */
} tn_option;

/* How the value of an option is checked. */
enum {
    TN_OPTION_PLAIN,  /* any value is allowed */
    TN_OPTION_STRING, /* a string; NULL is rejected unless it is the default */
    TN_OPTION_LIST,   /* a tn_dims_list; may be the list form of an option */
    TN_OPTION_WHOLE,  /* an int64_t; TN_NONE_INT is allowed only as default */
    TN_OPTION_NUMBER  /* a double; TN_NONE_FLOAT is allowed only as default */
};

/* The description of a struct of options. */
typedef struct tn_options_type {
    size_t size;             /* sizeof(tn_options_type) */
    const char *name;        /* name of the call without tn_: "nn_conv2d" */
    const char *arguments;   /* "in_channels, out_channels, kernel_size" */
    const void *defaults;    /* a struct of options with all defaults */
    size_t bytes;            /* size of a struct of options */
    const tn_option *option; /* at most TN_MAX_OPTIONS options */
    int32_t option_count;
} tn_options_type;
#define TN_MAX_OPTIONS 64

/* Fills *own, a struct of this type, with the given options and the defaults of
 * all others. Fails with TN_ERR_ARGUMENT for an option that is rejected. *own
 * is then unspecified. */
TN_API tn_status tn_options_take(const tn_options_type *type, void *own,
                                 const void *options);

/* A list of the options types of a library that uses Tenon. Closed: the struct
 * never changes. */
typedef struct tn_options_list {
    const tn_options_type *const *first, *const *end; /* pointers to types */
    struct tn_options_list *next; /* set by tn_options_add_list */
} tn_options_list;
/* Registers the options types of another library, so that tn_options_init works
 * for them. The library calls this once, when it is loaded. list and its types
 * must stay valid until the process ends. Does nothing for NULL. Cannot
 * fail. */
TN_API void tn_options_add_list(tn_options_list *list);

/* The condition under which an option has an effect. Closed: the struct never
 * changes.
 *
 *     const tn_option_need need[] = {
 *         {"gamma", own.decays, "without decays", "give decays"}};
 *     if (tn_options_check_needs(my_block_type(), &own, need, 1) < 0)
 *         return NULL;
 *
 * rejects tn_my_block(8, .gamma = 0.5) with "my_block: .gamma has no effect
 * without decays: give decays, or leave .gamma out". */
typedef struct tn_option_need {
    const char *option; /* name of the option: "gamma" */
    bool met;           /* whether the option has an effect in this call */
    const char *why;    /* the condition that is missing: "without decays" */
    const char *mend;   /* how to meet the condition: "give decays" */
} tn_option_need;

/* Rejects (TN_ERR_ARGUMENT) the first option that has no effect in this call
 * and whose value in own is not its default. Returns TN_OK if there is none.
 * own was filled by tn_options_take. Also fails with TN_ERR_ARGUMENT if type,
 * own or need is NULL, or if an option does not belong to type. need and its
 * strings are read during the call only. */
TN_API tn_status tn_options_check_needs(const tn_options_type *type,
                                        const void *own,
                                        const tn_option_need *need, int count);

#ifdef __cplusplus
#define TN_DEFAULT(...) = __VA_ARGS__
#else
#define TN_DEFAULT(...)
#endif
#define TN__OPTION_MEMBER(type, name, value) type name TN_DEFAULT(value);
#define TN__OPTION_DEFAULT(type, name, value) .name = value,
#define TN__OPTION_ROW(type, name, value)                                     \
    {#name, offsetof(tn__options_here, name), sizeof(type),                   \
     _Generic((type *)0, tn_dims_list *: TN_OPTION_LIST,                      \
              const char **: TN_OPTION_STRING, int64_t *: TN_OPTION_WHOLE,    \
              double *: TN_OPTION_NUMBER, default: TN_OPTION_PLAIN)},

#ifndef __cplusplus
#define TN_OPTIONS_STRUCT(call, list)                                         \
    typedef struct call##_options {                                           \
        const char *given;                                                    \
        size_t size;                                                          \
        list(TN__OPTION_MEMBER)                                               \
    } call##_options
/* Initialises a struct of options with all defaults. */
#define TN_OPTIONS_DEFAULTS(call, list)                                       \
    {list(TN__OPTION_DEFAULT).size = sizeof(call##_options), .given = "*"}
/* Registers an options type for tn_options_init: stores a pointer to it in the
 * section tn_options. libtenon searches its own section. Another library passes
 * the bounds of its section to tn_options_add_list. */
#define TN_OPTIONS_LISTED(type)                                               \
    static const tn_options_type *const listed_##type                         \
        __attribute__((section("tn_options"), used)) = &type
/* Defines the function call##_type(), which returns the tn_options_type. */
#define TN_OPTIONS_TYPE(call, call_name, call_arguments, list)                \
    static const tn_options_type *call##_type(void)                           \
    {                                                                         \
        typedef call##_options tn__options_here;                              \
        static const tn__options_here defaults =                              \
            TN_OPTIONS_DEFAULTS(call, list);                                  \
        static const tn_option option[] = {list(TN__OPTION_ROW)};             \
        static const tn_options_type type = {                                 \
            .size = sizeof(tn_options_type),                                  \
            .name = call_name,                                                \
            .arguments = call_arguments,                                      \
            .defaults = &defaults,                                            \
            .bytes = sizeof defaults,                                         \
            .option = option,                                                 \
            .option_count = sizeof option / sizeof *option,                   \
        };                                                                    \
        TN_OPTIONS_LISTED(type);                                              \
        return &type;                                                         \
    }
#else
#define TN_OPTIONS_STRUCT(call, list)                                         \
    struct call##_options {                                                   \
        const char *given = "*";                                              \
        size_t size = sizeof(call##_options);                                 \
        list(TN__OPTION_MEMBER)                                               \
    }
#define TN_OPTIONS_DEFAULTS(call, list) {}

/* TN_OVERLOAD_0 ... TN_OVERLOAD_6 are the C++ counterpart of TN_CALL_0 ...:
 * they define a function whose last argument is the struct of options. */
#define TN_OVERLOAD_0(returns, name)                                          \
    inline returns name(name##_options options = {})                          \
    {                                                                         \
        return name##_with(&options);                                         \
    }
#define TN_OVERLOAD_1(returns, name, A)                                       \
    inline returns name(A a, name##_options options = {})                     \
    {                                                                         \
        return name##_with(a, &options);                                      \
    }
#define TN_OVERLOAD_2(returns, name, A, B)                                    \
    inline returns name(A a, B b, name##_options options = {})                \
    {                                                                         \
        return name##_with(a, b, &options);                                   \
    }
#define TN_OVERLOAD_3(returns, name, A, B, C)                                 \
    inline returns name(A a, B b, C c, name##_options options = {})           \
    {                                                                         \
        return name##_with(a, b, c, &options);                                \
    }
#define TN_OVERLOAD_4(returns, name, A, B, C, D)                              \
    inline returns name(A a, B b, C c, D d, name##_options options = {})      \
    {                                                                         \
        return name##_with(a, b, c, d, &options);                             \
    }
#define TN_OVERLOAD_5(returns, name, A, B, C, D, E)                           \
    inline returns name(A a, B b, C c, D d, E e, name##_options options = {}) \
    {                                                                         \
        return name##_with(a, b, c, d, e, &options);                          \
    }
#define TN_OVERLOAD_6(returns, name, A, B, C, D, E, F)                        \
    inline returns name(A a, B b, C c, D d, E e, F f,                         \
                        name##_options options = {})                          \
    {                                                                         \
        return name##_with(a, b, c, d, e, f, &options);                       \
    }
#endif

#ifdef __cplusplus
}
#endif
#endif
