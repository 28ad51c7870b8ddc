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
 * scope, which is always open. TN_SCOPE(step) { ... } opens a scope for one
 * statement and closes it.
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

/* Opens a scope in the calling thread. Returns NULL on failure
 * (TN_ERR_MEMORY). A cancellation point if the thread has no open scope. */
TN_API tn_scope *tn_scope_open(void);

/* Frees the objects that the scope owns. Also closes the scopes that were
 * opened inside it and are still open. Does nothing for NULL. Closing a scope
 * of another thread, or one that is closed, records TN_ERR_STATE and changes
 * nothing. */
TN_API void tn_scope_close(tn_scope *scope);

/* Closes the scope, but first moves result, an object that the scope owns, to
 * the enclosing scope. Returns result. If result is NULL, closes the scope and
 * returns NULL. */
TN_API void *tn_scope_result(tn_scope *scope, void *result);

/* Keeps an object (tensor, module, optimizer, loader ...) alive beyond its
 * scope, until a matching tn_drop. Returns object, also if it is NULL. */
TN_API void *tn_keep(void *object);

/* Undoes one tn_keep. An object that is not kept and belongs to the calling
 * thread's scopes is freed at once. Does nothing for NULL. Dropping an object
 * that you neither kept nor own records TN_ERR_STATE. tn_keep and tn_drop
 * record TN_ERR_ARGUMENT for a pointer to something that is not reference
 * counted (a device, an operator). They record the same error for a freed
 * object whose memory has not been reused. */
TN_API void tn_drop(void *object);

/* Undoes one tn_keep and makes the open scope the owner of object. If a scope
 * owns object already, only undoes the tn_keep. Returns object, or NULL if
 * object is NULL or is not kept (TN_ERR_STATE). */
TN_API void *tn_scope_adopt(void *object);

/* Sets the debug modes. Every call recognises an object that was freed
 * (TN_ERR_STATE) or is of another kind (TN_ERR_ARGUMENT): "item: x was freed:
 * its scope was closed ...". It recognises a freed object until its memory is
 * reused. Memory is reused in the order of freeing, once 64 later objects of
 * the same kind have been freed in the same thread. The debug mode "scopes"
 * finds every use of a freed object, and reports which call made it and which
 * scope freed it. Switch it on before objects are made:
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
 * names is "scopes", or NULL to switch the mode off. This call overrides
 * TENON_DEBUG. Fails with TN_ERR_ARGUMENT for another name. */
TN_API tn_status tn_debug_set(const char *names);

/* Returns the number of objects that the calling thread's open scopes own.
 * Cannot fail. */
TN_API int64_t tn_scope_count(void);

/* ---- objects of your own ---------------------------------------------- */

/* A struct whose first member is a tn_object can be owned by scopes, kept and
 * dropped like a tensor. The modules of <tenon/nn.h> are made this way.
 *
 * Public structs begin with their size, so that a newer library and an older
 * program use only the members that both have. A struct without a size is
 * closed: it never changes, and its comment says so. tn_object is closed. */
typedef struct tn_object {
    void *reserved[4]; /* for the library's use */
} tn_object;

typedef struct tn_object_class {
    size_t size;                  /* sizeof(tn_object_class) */
    const char *name;             /* kind of object in messages: "module" */
    size_t bytes;                 /* size of an instance */
    void (*release)(void *object);/* frees what the instance holds, but
                                     not the instance; may be NULL */
} tn_object_class;

/* Makes a zeroed instance, followed by `extra` bytes. The open scope owns it.
 * type must be valid until the process ends. Returns NULL with TN_ERR_ARGUMENT
 * if type->bytes is less than sizeof(tn_object), or with TN_ERR_MEMORY if
 * memory runs out. */
TN_API void *tn_object_new(const tn_object_class *type, size_t extra);

/* Returns whether object is alive and was made by tn_object_new with this
 * class. object may be of any kind. False for NULL. Cannot fail. */
TN_API bool tn_object_is(const void *object, const tn_object_class *type);

/* A function that the library calls once with the caller's context, when it no
 * longer needs the context. */
typedef void (*tn_release_fn)(void *context);

/* Checks an argument of a function of your own. Returns true if object is alive
 * and of this class. If not, returns false and records "call: argument is
 * NULL", "... was freed: ..." or "... is a tensor, not a module", with the
 * class's name. Example: call is "optim_step", argument is "optim". */
TN_API bool tn_object_check(const void *object, const tn_object_class *type,
                            const char *call, const char *argument);
/* Records name ("Linear") as the maker of object, for the messages of
 * TENON_DEBUG=scopes. Without this call, the messages name the module that was
 * running. The library stores each different name until the process ends, so
 * use few. NULL and "" change nothing. For tensors see tn_tensor_set_maker. */
TN_API void tn_object_set_maker(void *object, const char *name);

/* Like tn_object_check, for a class of the library, given by its name:
 * "tensor", "module", "parameter list", "optimizer", "schedule", "dataset",
 * "loader", "text", "hook", "safetensors file", "metric", "packed sequence". */
TN_API bool tn_object_check_kind(const void *object, const char *kind,
                                 const char *call, const char *argument);

/* ---- regions ----------------------------------------------------------
 * A region is a part of a program in which a mode of its thread is changed:
 * TN_NO_GRAD, TN_DETECT_ANOMALY (autograd.h), TN_AUTOCAST (autocast.h),
 * TN_RELAXED (relaxed.h). Each has two forms:
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
 * Closed: the struct never changes. */
typedef struct tn_region {
    int was;   /* the previous mode */
    bool runs; /* true until the statement has run */
} tn_region;

/* Gives each region's variable a unique name, also for several regions on one
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

/* Runs the statement that follows in a scope of its own:
 *
 *     for (int step = 0; step < steps; step++)
 *         TN_SCOPE(scope) {
 *             tn_tensor *loss = tn_mse_loss(tn_forward(net, x), y);
 *             ... backward, step ...
 *             tn_scope_carry(scope, &h);         // for what the next step needs
 *         }
 *
 * The scope is closed however the statement is left, as a region is, so do not
 * call tn_scope_close or tn_scope_result for it. break and continue end the
 * statement. If the scope cannot be opened (TN_ERR_MEMORY), scope is NULL, and
 * the statement runs in the scope around it. The C++ class is closed: it never
 * changes. */
#if !defined(__cplusplus) && defined(__GNUC__)
#define TN_SCOPE(scope)                                                        \
    TN__SCOPE_AS(scope, TN__REGION_NAME(tn_scope_runs_))
#define TN__SCOPE_AS(scope, runs)                                              \
    for (bool runs = true; runs; runs = false)                                 \
        for (__attribute__((cleanup(tn_scope_end), unused)) tn_scope *scope =  \
                 tn_scope_open();                                              \
             runs; runs = false)
static inline void tn_scope_end(tn_scope **scope)
{
    tn_scope_close(*scope);
}
#elif defined(__cplusplus)
} /* extern "C" */
struct tn_scope_region {
    tn_scope *scope;
    bool runs;
    tn_scope_region() : scope(tn_scope_open()), runs(true) {}
    ~tn_scope_region() { tn_scope_close(scope); }
    tn_scope_region(const tn_scope_region &) = delete;
    tn_scope_region &operator=(const tn_scope_region &) = delete;
    operator tn_scope *() const { return scope; }
};
extern "C" {
#define TN_SCOPE(scope)                                                        \
    for (tn_scope_region scope; scope.runs; scope.runs = false)
#endif

/* ---- sizes ----------------------------------------------------------- */

/* The value "None" of an optional integer: an option without a value, or a size
 * that an adaptive pool leaves as it is. */
#define TN_NONE_INT INT64_MIN

/* A list of up to TN_MAX_NDIM sizes or axes, passed by value:
 * tn_zeros(tn_dims(2, 3)). If a list is optional, a count of -1 (TN_NONE_DIMS)
 * means that there is none. The last element of dim is not a size. It marks a
 * list as made by tn_dims or tn_dims_from_array. A list given as an option must
 * have this mark: without it, C would accept `.dims = 1` as a list of one 0.
 * Closed: the struct never changes. */
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
/* Makes a list of the first count numbers of an array. If count is above
 * TN_MAX_NDIM, the rest is not read, and the call that gets the list rejects
 * it. Cannot fail. */
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

/* Returns PyTorch's name ("float32"), or "none" for an invalid dtype. Cannot
 * fail. */
TN_API const char *tn_dtype_name(tn_dtype dtype);
/* Returns the dtype of that name ("float32", "f32", ...), or TN_DTYPE_NONE if
 * there is none. Cannot fail. */
TN_API tn_dtype tn_dtype_from_name(const char *name);
/* Returns the bytes per element, or 0 for an invalid dtype. Cannot fail. */
TN_API size_t tn_dtype_bytes(tn_dtype dtype);
/* Returns whether dtype is a floating-point type, including half and float8
 * types. Cannot fail. */
TN_API bool tn_dtype_is_floating(tn_dtype dtype);
/* Returns the dtype of a result of operands a and b, like torch.promote_types.
 * Returns TN_DTYPE_NONE if a or b is a float8 type and the other operand has
 * another dtype, as PyTorch defines no result for them. Cannot fail. */
TN_API tn_dtype tn_dtype_promote(tn_dtype a, tn_dtype b);

/* The default dtype of the calling thread. New tensors, and the parameters of
 * new layers, get it if no dtype is given and none follows from the arguments:
 * tn_zeros, tn_rand, tn_full and tn_arange of a floating-point number,
 * tn_nn_linear. It is float32 at first. A loader's workers have the default of
 * their loader's thread. Reading it cannot fail. tn_default_dtype_set fails
 * with TN_ERR_DTYPE if dtype is not a floating-point type or is a float8 type.
 * Source: torch.set_default_dtype. */
TN_API tn_dtype tn_default_dtype(void);
TN_API tn_status tn_default_dtype_set(tn_dtype dtype);

/* ---- the process ----------------------------------------------------- */

/* fork(): a child process may use the cpu and starts its own threads when it
 * needs them. In the child, two things are errors: a call for a device with
 * state outside of the process (cuda, opencl), and a loop over a loader with
 * workers that began before the fork. fork() waits until no other thread holds
 * one of the library's locks. The longest operations under a lock are opening a
 * device, compiling a kernel and a parallel loop.
 *
 * pthread_cancel(): a thread may be cancelled during a call. It ends at a point
 * where it holds no lock and has no file open; the call's work is not
 * completed. Asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS) during a
 * call is not supported, since it may end the thread at any instruction. */

/* The number of threads that compute. It is TENON_NUM_THREADS, or else the
 * number of CPUs that affinity and the cgroup quota allow. Results do not
 * depend on it. Reading it cannot fail. Setting it fails with TN_ERR_ARGUMENT
 * if count is below 1 or above 1024, and with TN_ERR_STATE within parallel
 * work. */
TN_API int tn_num_threads(void);
TN_API tn_status tn_set_num_threads(int count);

/* Sets the function that is called with each log line whose level is at most
 * TENON_LOG (0 silent, 1 warnings, 2 choices, 3 details; 2 if TENON_LOG is not
 * set). Several threads may call the function at once. By default lines go to
 * stderr if TENON_LOG is set, and nowhere otherwise. NULL restores the default.
 * Cannot fail. */
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

/* Return the version of the running library: "0.1.0", and 100. Cannot fail. */
TN_API const char *tn_version(void);
TN_API int tn_version_number(void);

/* Works as snprintf, but always in the C locale and rounding to nearest: a
 * number gives the same string whatever locale and rounding mode the program
 * has set. Use it to describe modules (tn_module_class.describe) and for errors
 * of your own. Returns -1 with TN_ERR_ARGUMENT if format is NULL, or text is
 * NULL and room is not 0. */
TN_API int tn_format(char *text, size_t room, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

#ifdef __cplusplus
}
#endif
#endif
