/* platform.h: what differs between compilers, processors and systems. The
 * `#ifdef`s of the library are here and in platform.c, and nowhere else. */
#ifndef TN_LIB_BASE_PLATFORM_H
#define TN_LIB_BASE_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TN__ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define TN__TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TN__ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define TN__TSAN 1
#endif

/* Tools that watch memory must see every block: no free lists then. Dead
 * objects, whose headers stay to be recognised, are hidden but for these. */
#if defined(TN__ASAN) && !defined(TN_PLAIN_ALLOC)
#define TN_PLAIN_ALLOC 1
#endif

#if defined(TN__ASAN)
#include <sanitizer/asan_interface.h>
#define TN__POISON(address, bytes) ASAN_POISON_MEMORY_REGION(address, bytes)
#define TN__UNPOISON(address, bytes) ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#else
#define TN__POISON(address, bytes) ((void)(address), (void)(bytes))
#define TN__UNPOISON(address, bytes) ((void)(address), (void)(bytes))
#endif

/* The same, also of valgrind, for where some nanoseconds do not count. */
#if !defined(TN__ASAN) && defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define TN__HIDE(address, bytes)                                              \
    ((void)VALGRIND_MAKE_MEM_NOACCESS(address, bytes))
#endif
#endif
#ifndef TN__HIDE
#define TN__HIDE(address, bytes) TN__POISON(address, bytes)
#endif

/* For the few bytes that every operator reads. The general model costs a call
 * of some 5 ns each time; this one takes static TLS, which is scarce where
 * libtenon is dlopened, so it is for pointers and flags, never for buffers. */
#if defined(__GNUC__) && defined(__ELF__)
#define TN__HOT_TLS _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define TN__HOT_TLS _Thread_local
#endif

#define TN__LIKELY(x) __builtin_expect(!!(x), 1)
#define TN__UNLIKELY(x) __builtin_expect(!!(x), 0)

/* One round of a waiting loop. */
static inline void tn__cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* The value of an environment variable; NULL where it is unset, empty, or the
 * program runs with privileges that its user lacks. */
const char *tn__env(const char *name);

/* The system may take the whole pages in these bytes of malloc's, which are
 * zero then or as they were. */
void tn__memory_discard(void *address, size_t bytes);

/* "train+0x1234": the program or library in which an address of code lies, and
 * where in it, as addr2line takes it. "" if that cannot be told. */
void tn__code_place(const void *address, char *text, size_t room);

/* Processors that this process may use: affinity, then the cgroup's quota.
 * At least 1. */
int tn__processor_count(void);

/* The widest vectors of floats that processor and system offer (x86-64; elsewhere
 * always the first). */
typedef enum tn__vectors { TN__PLAIN_VECTORS, TN__AVX2, TN__AVX512 } tn__vectors;
tn__vectors tn__processor_vectors(void);

/* Waits until no other open file holds this place of the file, and holds it
 * until the descriptor's file is closed everywhere or tn__file_let_go. Where
 * the system knows no such locks, all places are one. False: it has none. */
bool tn__file_hold(int fd, uint64_t place);
void tn__file_let_go(int fd);

/* The folder in which the shared object (or program) with this library lies,
 * without a slash at its end. False if it cannot be told. */
bool tn__library_folder(char *out, size_t room);

#endif
