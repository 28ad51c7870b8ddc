/* platform.h: hides the differences between compilers, processors and operating
 * systems. All `#ifdef`s for such differences are here and in platform.c. */
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

/* With AddressSanitizer there are no free lists, so that it sees each
 * allocation. The body of a freed object is poisoned, so that AddressSanitizer
 * reports its use. The header stays readable. */
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

/* Makes memory inaccessible, as TN__POISON does, but under valgrind as well as
 * under AddressSanitizer. Takes some nanoseconds. */
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

/* Declares a thread-local variable that every operator reads. In the default
 * TLS model of a shared library, each access is a function call of about 5 ns.
 * The initial-exec model avoids the call, but uses static TLS. A library loaded
 * by dlopen has little of that, so only pointers and flags are declared this
 * way, not buffers. */
#if defined(__GNUC__) && defined(__ELF__)
#define TN__HOT_TLS _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define TN__HOT_TLS _Thread_local
#endif

#define TN__LIKELY(x) __builtin_expect(!!(x), 1)
#define TN__UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Tells the processor that this is an iteration of a loop that waits. */
static inline void tn__cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Returns the value of an environment variable. Returns NULL if the variable is
 * unset or empty, or if the program is setuid or setgid. */
const char *tn__env(const char *name);

/* Lets the system reclaim the pages that lie completely within this memory,
 * which malloc allocated. The contents of these pages become zero or stay as
 * they are. */
void tn__memory_discard(void *address, size_t bytes);

/* Writes a code address as "train+0x1234": the program or library that contains
 * it, and the offset, in the form that addr2line expects. Writes "" if it is
 * not known. */
void tn__code_place(const void *address, char *text, size_t room);

/* Returns the number of processors that this process may use, at least 1.
 * Considers the CPU affinity and the cgroup quota. */
int tn__processor_count(void);

/* The widest float vectors that both the processor and the operating system
 * support, on x86-64. On other processors it is TN__PLAIN_VECTORS. */
typedef enum tn__vectors { TN__PLAIN_VECTORS, TN__AVX2, TN__AVX512 } tn__vectors;
tn__vectors tn__processor_vectors(void);

/* Takes the exclusive lock of the byte at offset `place` of a file, and waits
 * for it if necessary. The lock is released by tn__file_let_go, or when all
 * descriptors of the open file are closed. On a system that can only lock whole
 * files, all offsets share one lock. Returns false if locking failed. */
bool tn__file_hold(int fd, uint64_t place);
void tn__file_let_go(int fd);

/* Writes the path of the folder of the shared object (or program) that contains
 * this library, without a trailing slash. Returns false if it is not known. */
bool tn__library_folder(char *out, size_t room);

#endif
