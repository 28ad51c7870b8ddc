/* cpu_thread.c: per-thread state: scratch memory, memory for the tasks of a
 * call, the pending fault and the floating-point state. Memory is cached from
 * launch to launch and freed when the thread ends, so most launches allocate
 * nothing. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* Memory of more than MAX_CACHED bytes is freed at once, not cached. The
 * largest common request is for the partial sums of a convolution's weight
 * gradient: up to 8 MiB, and the sums of one task. */
enum { MAX_CACHED = 16 << 20 };

typedef struct thread_state {
    /* the memory that tn__cpu_scratch returns, aligned to 64 bytes; owned */
    char *scratch;
    size_t bytes; /* size of scratch */
    char *cached; /* the memory that tn__cpu_memory_acquire returns; owned */
    size_t cached_bytes;
    tn_fault fault; /* the pending fault; its code is TN_OK if there is none */
} thread_state;

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;

static void state_free(void *value)
{
    thread_state *state = value;
    free(state->scratch);
    free(state->cached);
    free(state);
}

static void key_make(void)
{
    key_made = pthread_key_create(&key, state_free) == 0;
}

static thread_state *state_here(void)
{
    pthread_once(&key_once, key_make);
    if (!key_made)
        return NULL;
    thread_state *state = pthread_getspecific(key);
    if (!state) {
        state = calloc(1, sizeof *state);
        if (state && pthread_setspecific(key, state) != 0) {
            free(state);
            state = NULL;
        }
    }
    return state;
}

/* Grows *memory, which has *room bytes, to at least `bytes`. The contents are
 * lost. Returns the new *memory, or NULL if out of memory. */
static void *grow_to(char **memory, size_t *room, size_t bytes)
{
    if (bytes > *room) {
        free(*memory);
        *room = (bytes + bytes / 2 + 4095) & ~(size_t)4095;
        *memory = aligned_alloc(TN_CPU_ALIGN, *room);
        if (!*memory)
            *room = 0;
    }
    return *memory;
}

void *tn__cpu_scratch(size_t bytes)
{
    thread_state *state = state_here();
    return state ? grow_to(&state->scratch, &state->bytes, bytes) : NULL;
}

void *tn__cpu_memory_acquire(size_t bytes)
{
    thread_state *state = state_here();
    if (!state)
        return NULL;
    return bytes > MAX_CACHED
               ? aligned_alloc(TN_CPU_ALIGN, (bytes + 63) & ~(size_t)63)
               : grow_to(&state->cached, &state->cached_bytes, bytes + 1);
}

void tn__cpu_memory_release(void *memory)
{
    if (memory && memory != state_here()->cached)
        free(memory);
}

tn_status tn__cpu_fault_raise(const tn_fault *fault)
{
    thread_state *state = state_here();
    if (!state)
        return tn__cpu_host->fail(TN_ERR_MEMORY, "launch: out of memory for "
                                                 "this thread's state");
    if (state->fault.code == TN_OK)
        state->fault = *fault;
    return fault->code;
}

tn_status tn__cpu_fault_take(tn_fault *fault)
{
    thread_state *state = state_here();
    if (!state || state->fault.code == TN_OK)
        return TN_OK;
    tn_status code = state->fault.code;
    if (fault)
        tn_struct_copy(fault, &state->fault);
    state->fault.code = TN_OK;
    return code;
}

#if defined(__x86_64__)

/* The value of the register MXCSR that programs need: all exceptions masked,
 * round to nearest, subnormals not flushed to zero. The low six bits of MXCSR
 * record exceptions, so comparisons ignore them. */
#define FPU_NORMAL 0x1f80u

unsigned tn__cpu_fpu_set(void)
{
    unsigned state = _mm_getcsr();
    if ((state & ~0x3fu) != FPU_NORMAL)
        _mm_setcsr(FPU_NORMAL);
    return state;
}

void tn__cpu_fpu_restore(unsigned state)
{
    if ((state & ~0x3fu) != FPU_NORMAL)
        _mm_setcsr(state);
}

#elif defined(__aarch64__)

/* The value 0 of the register FPCR means round to nearest, subnormals not
 * flushed to zero, and no traps. */
unsigned tn__cpu_fpu_set(void)
{
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    if (state != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return (unsigned)state;
}

void tn__cpu_fpu_restore(unsigned state)
{
    if (state != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)state));
}

#else

unsigned tn__cpu_fpu_set(void)
{
    return 0;
}

void tn__cpu_fpu_restore(unsigned state)
{
    (void)state;
}

#endif

float tn__cpu_round_f32(double x)
{
    /* A value that is representable as a float converts exactly in every
     * rounding mode. */
    float same = (float)x;
    if ((double)same == x)
        return same;
    /* The variables are volatile so that the compiler cannot move the
     * conversion before or after these calls. */
    volatile double from = x;
    unsigned fpu = tn__cpu_fpu_set();
    volatile float single = (float)from;
    tn__cpu_fpu_restore(fpu);
    return single;
}
