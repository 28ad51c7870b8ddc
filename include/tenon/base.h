/* <tenon/base.h>: scopes and ownership.
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
 * An object that a call creates belongs to the innermost open scope of the
 * calling thread. It is freed when that scope closes. Each thread has a root
 * scope, which is always open.
 *
 * Threads: A scope, and what it owns, belongs to the thread that opened it.
 * Another thread may use an object that was kept (tn_keep), or whose scope
 * stays open meanwhile. Any thread may call tn_keep, tn_drop and
 * tn_scope_adopt. The number of threads, the log and the version belong to the
 * process: any thread may read and set them.
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

/* Opens a scope in the calling thread. NULL: TN_ERR_MEMORY. */
TN_API tn_scope *tn_scope_open(void);

/* Frees what the scope owns, and closes the scopes that were opened inside it
 * and are still open. NULL does nothing. Closing a scope of another thread, or
 * one that is closed, records TN_ERR_STATE and changes nothing. */
TN_API void tn_scope_close(tn_scope *scope);

/* Closes the scope, but first moves result, which it owns, to the enclosing
 * scope. Returns result. If result is NULL the scope is closed all the same,
 * and NULL is returned. */
TN_API void *tn_scope_result(tn_scope *scope, void *result);

/* Keeps an object (tensor, module, optimizer, loader ...) alive beyond its
 * scope, until a matching tn_drop. Returns object; NULL for NULL. */
TN_API void *tn_keep(void *object);

/* Undoes one tn_keep. An object that is not kept and belongs to the calling
 * thread's scopes is freed at once. NULL does nothing. Dropping an object that
 * you neither kept nor own records TN_ERR_STATE. tn_keep and tn_drop record
 * TN_ERR_ARGUMENT for a pointer to what is not counted (a device, an operator),
 * and for an object that was freed, where its memory still shows that. */
TN_API void tn_drop(void *object);

/* Undoes one tn_keep and makes the open scope the owner of object. If a scope
 * owns it already, only the keep is undone. Returns object; NULL for NULL, and
 * NULL (TN_ERR_STATE) if object is not kept. */
TN_API void *tn_scope_adopt(void *object);

/* Every call recognises an object that was freed (TN_ERR_STATE) or is of
 * another kind (TN_ERR_ARGUMENT): "item: x was freed: its scope was closed ...".
 * A freed object is recognised until its memory is reused. Memory is reused in
 * the order of freeing, once 64 later objects of the same kind have been freed
 * in the same thread. The debug mode "scopes" finds every use of a freed
 * object, and reports which call made it and which scope freed it. Switch it on
 * before objects are made:
 *
 *     TENON_DEBUG=scopes ./train
 *     item: x was freed: made by mul_scalar in encoder.fc, scope 12 (opened at
 *     train+0x14f3) freed it when it was closed; ...
 *
 * (addr2line -e train 0x14f3 shows the source line.) In this mode the memory of
 * freed objects is not reused until there are 262144 of them, about 100 MB.
 * After that the oldest are reused, which the log reports once. The elements of
 * tensors are freed as usual.
 *
 * names: "scopes", or NULL to switch it off. This call overrides TENON_DEBUG.
 * TN_ERR_ARGUMENT for another name. */
TN_API tn_status tn_debug_set(const char *names);

/* The number of objects that the calling thread's open scopes own. Cannot
 * fail. */
TN_API int64_t tn_scope_count(void);

/* ---- objects of your own ---------------------------------------------- */

/* A struct whose first member is a tn_object can be owned by scopes, kept and
 * dropped like a tensor. The modules of <tenon/nn.h> are made this way.
 *
 * Public structs begin with their size, so that a newer library and an older
 * program agree on the members that both know. A struct without a size never
 * changes; its comment says "closed". tn_object is closed. */
typedef struct tn_object {
    void *reserved[4]; /* for the library's use */
} tn_object;

typedef struct tn_object_class {
    size_t size;                  /* of this struct */
    const char *name;             /* "module", for messages */
    size_t bytes;                 /* of an instance */
    void (*release)(void *object);/* frees what the instance holds, but
                                     not the instance; may be NULL */
} tn_object_class;

/* A zeroed instance, followed by `extra` bytes, owned by the open scope. type
 * must be valid until the process ends. NULL: TN_ERR_MEMORY; TN_ERR_ARGUMENT if
 * type->bytes is less than sizeof(tn_object). */
TN_API void *tn_object_new(const tn_object_class *type, size_t extra);

/* Whether object is alive and was made of this class by tn_object_new. object
 * may be of any kind. False for NULL. Cannot fail. */
TN_API bool tn_object_is(const void *object, const tn_object_class *type);

/* Called once with the caller's context, when the library no longer needs
 * it. */
typedef void (*tn_release_fn)(void *context);

/* Checks an argument of a function of your own. Returns true if argument is a
 * living object of this class. If not, it records "call: argument is NULL",
 * "... was freed: ..." or "... is a tensor, not a module", with the class's name,
 * and returns false. Example: call is "optim_step", argument is "optim". */
TN_API bool tn_object_check(const void *object, const tn_object_class *type,
                            const char *call, const char *argument);
/* Records name ("Linear") as the maker of object, for the messages of
 * TENON_DEBUG=scopes. Without it they name the module that was running. The
 * library stores each different name until the process ends, so use few. NULL
 * and "" change nothing. For tensors see tn_tensor_set_maker. */
TN_API void tn_object_set_maker(void *object, const char *name);

/* tn_object_check for a class of the library, by its name: "tensor", "module",
 * "parameter list", "optimizer", "schedule", "dataset", "loader", "text",
 * "hook", "safetensors file". */
TN_API bool tn_object_check_kind(const void *object, const char *kind,
                                 const char *call, const char *argument);

/* ---- regions ----------------------------------------------------------
 * A region is a part of a program in which a mode of its thread is changed:
 * TN_NO_GRAD, TN_DETECT_ANOMALY (autograd.h), TN_AUTOCAST (autocast.h). Each
 * has two forms:
 *
 *     TN_NO_GRAD {                 // the statement that follows: break and
 *         accuracy = test(net);    // continue end the region, not a loop
 *     }                            // around it
 *
 *     for (int i = 0; i < n; i++) {
 *         TN_NO_GRAD_HERE;         // to the end of the enclosing block: break
 *         if (enough(x))           // and continue apply to the loop
 *             break;
 *     }
 *
 * The previous mode is restored however the region is left: at its end, or by
 * break, continue, return or goto; in C++ by an exception, too. longjmp is not
 * supported: the mode stays changed. In C the regions require gcc or clang.
 * Closed. */
typedef struct tn_region {
    int was;   /* the mode before */
    bool runs; /* the statement has not run yet */
} tn_region;

/* Each region's variable has a unique name, also for several regions on one
 * line and for nested ones, so that none shadows another (-Wshadow). */
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

/* "None", where an integer is optional: an option without a value, or a size
 * that an adaptive pool leaves as it is. */
#define TN_NONE_INT INT64_MIN

/* A list of up to TN_MAX_NDIM sizes or axes, passed by value:
 * tn_zeros(tn_dims(2, 3)). Where a list is optional, a count of -1
 * (TN_NONE_DIMS) means none. The last element of dim is no size. It marks a
 * list as made by tn_dims or tn_dims_from_array. A list given as an option must
 * have this mark: without it, C would accept `.dims = 1` as a list of one 0.
 * Closed. */
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
/* A list of count numbers from an array. With count above TN_MAX_NDIM the rest
 * is not read, and the call that gets the list rejects it. Cannot fail. */
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

/* PyTorch's name ("float32"); "none" for an invalid dtype. Cannot fail. */
TN_API const char *tn_dtype_name(tn_dtype dtype);
/* The dtype of that name ("float32", "f32", ...); TN_DTYPE_NONE if there is
 * none. Cannot fail. */
TN_API tn_dtype tn_dtype_from_name(const char *name);
/* Bytes per element; 0 for an invalid dtype. Cannot fail. */
TN_API size_t tn_dtype_bytes(tn_dtype dtype);
/* Whether dtype is a floating type, half and float8 types included. Cannot
 * fail. */
TN_API bool tn_dtype_is_floating(tn_dtype dtype);
/* The dtype of a result of operands a and b, as torch.promote_types.
 * TN_DTYPE_NONE where PyTorch has none: float8 with any other. Cannot fail. */
TN_API tn_dtype tn_dtype_promote(tn_dtype a, tn_dtype b);

/* The dtype of the calling thread's new tensors, and parameters of layers, where
 * none is given and no other follows from the arguments: tn_zeros, tn_rand,
 * tn_full and tn_arange of a floating number, tn_nn_linear. float32 at first; a
 * loader's workers have that of their loader's thread. Cannot fail.
 * tn_default_dtype_set: TN_ERR_DTYPE if dtype is not floating, or is a float8.
 * Source: torch.set_default_dtype. */
TN_API tn_dtype tn_default_dtype(void);
TN_API tn_status tn_default_dtype_set(tn_dtype dtype);

/* ---- the process ----------------------------------------------------- */

/* fork(): a child process may use the cpu and starts its own threads when it
 * needs them. In the child, two things are errors: a call for a device with
 * state outside of the process (cuda, opencl), and a loop over a loader with
 * workers that began before the fork. fork() waits until no other thread holds
 * one of the library's locks. It waits for the longest work done under a lock
 * at most: opening a device, compiling a kernel, a parallel loop.
 *
 * pthread_cancel(): a thread may be cancelled during a call. It ends at a point
 * where it holds no lock and has no file open; the call's work is not
 * completed. Asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS) during a
 * call is not supported, since it may end the thread at any instruction. */

/* The number of threads that compute: TENON_NUM_THREADS, or else the CPUs that
 * affinity and the cgroup quota allow. Results do not depend on it. Cannot
 * fail. tn_set_num_threads: TN_ERR_ARGUMENT if count is below 1 or above
 * 1024; TN_ERR_STATE within parallel work. */
TN_API int tn_num_threads(void);
TN_API tn_status tn_set_num_threads(int count);

/* Sets the function that is called with each log line whose level is at most
 * TENON_LOG (0 silent, 1 warnings, 2 choices, 3 details; 2 if TENON_LOG is not
 * set). Several threads may call it at once. By default lines go to stderr if
 * TENON_LOG is set, and nowhere otherwise. NULL restores the default. Cannot
 * fail. */
TN_API void tn_log_set(void (*log)(int level, const char *line, void *context),
                       void *context);

/* The version of these headers, for tests at compile time: #if
 * TN_VERSION_NUMBER >= 200. A program runs with a library of the same
 * TN_VERSION_MAJOR and of the same or a newer version. While MAJOR is 0, MINOR
 * must be the same, too. */
#define TN_VERSION_MAJOR 0
#define TN_VERSION_MINOR 1
#define TN_VERSION_PATCH 0
#define TN_VERSION_NUMBER                                                     \
    (TN_VERSION_MAJOR * 10000 + TN_VERSION_MINOR * 100 + TN_VERSION_PATCH)

/* The version of the running library: "0.1.0", and 100. Cannot fail. */
TN_API const char *tn_version(void);
TN_API int tn_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
