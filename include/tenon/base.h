/* <tenon/base.h>: scopes, and who owns what.
 *
 * A failed call leaves a message (<tenon/error.h>), and calls given NULL return
 * NULL, so a whole model is checked once, at its end:
 *
 *     tn_scope *step = tn_scope_open();
 *     tn_tensor *loss = tn_cross_entropy(tn_forward(net, x), labels);
 *     if (tn_backward(loss) < 0)
 *         fprintf(stderr, "%s\n", tn_error());
 *     tn_scope_close(step);
 *
 * What a call makes belongs to the innermost open scope of its thread and
 * goes when that closes. A root scope always exists.
 *
 * Threads: Scopes belong to the thread that opened them, and so does what they
 * own. Another thread may use an object that is kept (tn_keep) or that its
 * owner's scope outlives; tn_keep, tn_drop and tn_scope_adopt may be called by
 * any thread. The number of threads, the log and the version are the
 * process's, and any thread may ask for or set them.
 */
#ifndef TENON_BASE_H
#define TENON_BASE_H

#include <stdbool.h>
#include <tenon/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- objects and scopes --------------------------------------------- */

typedef struct tn_scope tn_scope;

/* Opens a scope in the calling thread. NULL if memory runs out. */
TN_API tn_scope *tn_scope_open(void);

/* Frees what the scope owns, and scopes opened inside it that are still open.
 * NULL is welcome. Closing a scope of another thread, or one that is closed,
 * records TN_ERR_STATE and does nothing. */
TN_API void tn_scope_close(tn_scope *scope);

/* Closes the scope but hands result (owned by it) on to the scope around it.
 * Returns result; NULL, with the scope closed, if result is NULL. */
TN_API void *tn_scope_result(tn_scope *scope, void *result);

/* Lets an object (tensor, module, optimizer, loader ...) outlive its scope
 * until a matching tn_drop. Returns object. NULL is welcome. */
TN_API void *tn_keep(void *object);

/* Gives back one tn_keep; an object that only its scope owns is freed at
 * once. NULL is welcome. Dropping what you neither kept nor own records
 * TN_ERR_STATE; in both, a device, an operator or what else is not counted, and
 * an object that is gone, where its memory still tells, TN_ERR_ARGUMENT. */
TN_API void tn_drop(void *object);

/* The opposite of tn_keep: the open scope takes over one tn_keep of object,
 * unless a scope owns it already (then that keep is only given back). Returns
 * object; NULL (TN_ERR_STATE) if it is not kept. NULL is welcome. */
TN_API void *tn_scope_adopt(void *object);

/* Every call recognises an object that is gone (TN_ERR_STATE) or of another kind
 * (TN_ERR_ARGUMENT): "item: x was freed: its scope was closed ...". An object is
 * recognised until its memory is used again, which happens oldest first, after
 * 64 others of its kind have died in the same thread. To find every use, and
 * who made the object and which scope took it, switch this on before objects
 * are made:
 *
 *     TENON_DEBUG=scopes ./train
 *     item: x was freed: made by mul_scalar in encoder.fc, scope 12 (opened at
 *     train+0x14f3) freed it when it was closed; ...
 *
 * (addr2line -e train 0x14f3 names the line.) Then the memory of dead objects
 * is not used again until 262144 of them are held, some 100 MB; from there on
 * the oldest are forgotten, as the log says once. Tensors' elements are freed
 * as always. names: "scopes", or NULL for nothing; what is set here wins over
 * TENON_DEBUG. TN_ERR_ARGUMENT for another name. */
TN_API tn_status tn_debug_set(const char *names);

/* How many objects the calling thread's open scopes own. Cannot fail. */
TN_API int64_t tn_scope_count(void);

/* ---- objects of your own ---------------------------------------------- */

/* A struct that begins with a tn_object can be owned by scopes, kept and
 * dropped like a tensor. <tenon/nn.h>'s modules are made this way.
 *
 * Public structs begin with their size, so that a later library and an earlier
 * program agree on what both know. Those without one, of which "closed" is
 * said, never change. tn_object is closed. */
typedef struct tn_object {
    void *reserved[4]; /* the library's */
} tn_object;

typedef struct tn_object_class {
    size_t size;                  /* of this struct */
    const char *name;             /* "module": for messages */
    size_t bytes;                 /* of an instance */
    void (*release)(void *object);/* gives back what the instance holds, not
                                     its memory; may be NULL */
} tn_object_class;

/* A zeroed instance with `extra` bytes behind it, owned by the open scope. type
 * must live for ever. NULL: TN_ERR_MEMORY, TN_ERR_ARGUMENT (bytes less than a
 * tn_object). */
TN_API void *tn_object_new(const tn_object_class *type, size_t extra);

/* Is object, of whatever kind, one that lives and was made of this class by
 * tn_object_new? False for NULL. Cannot fail. */
TN_API bool tn_object_is(const void *object, const tn_object_class *type);

/* Called once with a caller's context when the library needs it no longer. */
typedef void (*tn_release_fn)(void *context);

/* The same for an argument of a function of yours: where it is not, the error
 * says "call: argument is NULL", "was freed: ..." or "is a tensor, not a module",
 * with the class's name. call is "optim_step", argument "optim". */
TN_API bool tn_object_check(const void *object, const tn_object_class *type,
                            const char *call, const char *argument);
/* Names what made object, for TENON_DEBUG=scopes, which else knows the module
 * that was running alone: "Linear". Kept for ever: few names are wanted. NULL
 * and "" change nothing. Tensors know their maker: tn_tensor_set_maker. */
TN_API void tn_object_set_maker(void *object, const char *name);

/* tn_object_check by the name of a class that is not yours: "tensor", "module",
 * "parameter list", "optimizer", "schedule", "dataset", "loader", "text",
 * "hook", "safetensors file". */
TN_API bool tn_object_check_kind(const void *object, const char *kind,
                                 const char *call, const char *argument);

/* ---- regions ----------------------------------------------------------
 * A region is a part of a program for which a mode of its thread is changed:
 * TN_NO_GRAD, TN_DETECT_ANOMALY (autograd.h), TN_AUTOCAST (autocast.h). Each
 * has two forms:
 *
 *     TN_NO_GRAD {                 // the statement that follows: break and
 *         accuracy = test(net);    // continue end the region, not a loop
 *     }                            // around it
 *
 *     for (int i = 0; i < n; i++) {
 *         TN_NO_GRAD_HERE;         // to the end of the enclosing block: break
 *         if (enough(x))           // and continue are the loop's
 *             break;
 *     }
 *
 * However a region is left, by break, continue, return or goto too, the mode is
 * what it was before. In C++ exceptions count as well. longjmp is not
 * supported: it leaves the mode as it is in the region. In C this takes gcc or
 * clang. Closed. */
typedef struct tn_region {
    int was;   /* the mode before */
    bool runs; /* the statement is still to run */
} tn_region;

/* Each region's variable has a name of its own, on one line and nested too, so
 * that none shadows another (-Wshadow). */
#define TN__REGION_NAME(name) TN__REGION_JOIN(name, __COUNTER__)
#define TN__REGION_JOIN(name, number) TN__REGION_JOIN_AT(name, number)
#define TN__REGION_JOIN_AT(name, number) name##number
#if !defined(__cplusplus) && defined(__GNUC__)
#define TN__REGION(name, begin, end)                                           \
    TN__REGION_AS(TN__REGION_NAME(name), begin, end)
#define TN__REGION_AS(region, begin, end)                                      \
    for (__attribute__((cleanup(end))) tn_region region = begin; region.runs;  \
         region.runs = false)
#define TN__REGION_HERE(name, begin, end)                                      \
    __attribute__((cleanup(end), unused)) tn_region TN__REGION_NAME(name) =    \
        begin
#elif defined(__cplusplus)
} /* extern "C" */
template <typename Mode, Mode (*set)(Mode)> struct tn_region_of {
    Mode was;
    bool runs;
    explicit tn_region_of(Mode mode) : was(set(mode)), runs(true) {}
    ~tn_region_of() { set(was); }
    tn_region_of(const tn_region_of &) = delete;
    tn_region_of &operator=(const tn_region_of &) = delete;
};
extern "C" {
#define TN__REGION(name, type, mode)                                           \
    TN__REGION_AS(TN__REGION_NAME(name), type, mode)
#define TN__REGION_AS(region, type, mode)                                      \
    for (type region(mode); region.runs; region.runs = false)
#define TN__REGION_HERE(name, type, mode) type TN__REGION_NAME(name)(mode)
#endif

/* ---- sizes ----------------------------------------------------------- */

/* "None" where a whole number may be missing: an option without a value, a size
 * that an adaptive pool keeps. */
#define TN_NONE_INT INT64_MIN

/* A short list of sizes or axes, passed by value: tn_zeros(tn_dims(2, 3)).
 * A count of -1 (TN_NONE_DIMS) is none where a list may be missing. The last
 * element of dim is no size: it marks a list as one that tn_dims or
 * tn_dims_from_array has made. Among options a list must have the mark, since C
 * takes `.dims = 1` for a list of one 0. Closed. */
typedef struct tn_dims_list {
    int32_t count;
    int64_t dim[TN_MAX_NDIM + 1];
} tn_dims_list;
#define TN_DIMS_MARK 0x736d6964

#ifndef __cplusplus
#define tn_dims(...)                                                          \
    ((tn_dims_list){                                                          \
        (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),        \
        {__VA_ARGS__, [TN_MAX_NDIM] = TN_DIMS_MARK}})
#else
} /* extern "C" */
template <typename... Sizes> inline tn_dims_list tn_dims(Sizes... sizes)
{
    tn_dims_list list = {(int32_t)sizeof...(sizes), {(int64_t)sizes...}};
    list.dim[TN_MAX_NDIM] = TN_DIMS_MARK;
    return list;
}
extern "C" {
#endif
/* count numbers from an array; those beyond TN_MAX_NDIM are not read, and the
 * list is refused where it is used. Cannot fail. */
static inline tn_dims_list tn_dims_from_array(const int64_t *dim, int count)
{
    tn_dims_list list;
    list.count = count;
    for (int i = 0; i < TN_MAX_NDIM; i++)
        list.dim[i] = i < count ? dim[i] : 0;
    list.dim[TN_MAX_NDIM] = TN_DIMS_MARK;
    return list;
}
/* The shape of a 0-dimensional tensor. */
#define TN_SCALAR tn_dims_scalar()
static inline tn_dims_list tn_dims_scalar(void)
{
    return tn_dims_from_array(NULL, 0);
}

/* ---- dtypes ---------------------------------------------------------- */

/* PyTorch's name ("float32"); "none" for what is no dtype. Cannot fail. */
TN_API const char *tn_dtype_name(tn_dtype dtype);
/* The dtype of that name ("float32", "f32", ...), TN_DTYPE_NONE if none. */
TN_API tn_dtype tn_dtype_from_name(const char *name);
/* Bytes of one element, 0 for what is no dtype. Cannot fail. */
TN_API size_t tn_dtype_bytes(tn_dtype dtype);
TN_API bool tn_dtype_is_floating(tn_dtype dtype);
/* The dtype of a result of both (torch.promote_types); TN_DTYPE_NONE where
 * PyTorch has none: float8 with any other. Cannot fail. */
TN_API tn_dtype tn_dtype_promote(tn_dtype a, tn_dtype b);

/* ---- the process ----------------------------------------------------- */

/* Forks: a child may use the cpu; it has threads of its own when it needs them. Calls
 * for devices that hold state outside of the process (cuda, opencl) and loops over
 * a loader with workers that began before the fork are an error there. fork()
 * waits until no other thread is within one of the library's locks, at most as
 * long as the longest work under one takes: opening a device, compiling a kernel,
 * a parallel loop.
 *
 * Cancellation: a thread may be cancelled by pthread_cancel while it is in a call;
 * it ends where it holds no lock and has no file open, and what it had not finished
 * is not done.
 * Asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS) within a call is not
 * supported: it may end a thread anywhere. */

/* Threads that compute: TENON_NUM_THREADS, else what affinity and the cgroup
 * quota allow. Results do not depend on it. */
TN_API int tn_num_threads(void);
TN_API tn_status tn_set_num_threads(int count);

/* Called with each log line at or below TENON_LOG's level (0 silent, 1
 * warnings, 2 choices, 3 details; 2 where TENON_LOG is not set), perhaps from
 * several threads at once. The default writes to stderr when TENON_LOG is set
 * and is silent else. NULL brings the default back. */
TN_API void tn_log_set(void (*log)(int level, const char *line, void *context),
                       void *context);

/* The version of these headers: to ask at compile time for what came later,
 * #if TN_VERSION_NUMBER >= 200. A program runs with libraries of the same
 * TN_VERSION_MAJOR (of the same MINOR while that is 0) that are as new. */
#define TN_VERSION_MAJOR 0
#define TN_VERSION_MINOR 1
#define TN_VERSION_PATCH 0
#define TN_VERSION_NUMBER                                                     \
    (TN_VERSION_MAJOR * 10000 + TN_VERSION_MINOR * 100 + TN_VERSION_PATCH)

/* Those of the library that runs: "0.1.0", and 100. Cannot fail. */
TN_API const char *tn_version(void);
TN_API int tn_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
