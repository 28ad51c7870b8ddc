/* fuzz.h: functions that the fuzz targets share.
 *
 * A target is one file with the function LLVMFuzzerTestOneInput, which
 * libFuzzer or driver.c calls. It passes arbitrary bytes to one parser and
 * checks properties that hold for all inputs. A check that fails calls abort(),
 * which a fuzzer reports. */
#ifndef TN_TESTS_FUZZ_H
#define TN_TESTS_FUZZ_H

#include <base/memory.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tenon/base.h>
#include <unistd.h>

/* Name of the target's folder in corpus/. */
extern const char fuzz_target[];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_check(bool holds, const char *fact)
{
    if (holds)
        return;
    fprintf(stderr, "# does not hold: %s\n# tn_error: %s\n", fact,
            tn_error() ? tn_error() : "(none)");
    abort();
}

static inline void fuzz_check_line(const char *message)
{
    fuzz_check(message && *message, "a refused input has a message");
    fuzz_check(!message[strcspn(message, "\r\n")], "a message is one line");
}

/* Checks that a failed call has set an error code and a message of one line;
 * clears the error. */
static inline void fuzz_refused(void)
{
    fuzz_check_line(tn_error());
    fuzz_check(tn_error_code() < 0, "a failure has its code");
    tn_error_clear();
}

static inline void fuzz_accepted(void)
{
    fuzz_check(!tn_error(), "an accepted input leaves no message");
}

/* Returns the input as a string whose memory ends right after it; the caller
 * frees it. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        abort();
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    return text;
}

/* Writes the input to a file in memory and returns its descriptor; closing the
 * descriptor removes the file. */
static inline int fuzz_file(const void *data, size_t size, char path[32])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

/* Runs an input twice and checks that the second run leaks nothing. (The first
 * run may allocate memory that the process never frees.) */
static inline void fuzz_flat(void (*run)(const uint8_t *data, size_t size),
                             const uint8_t *data, size_t size)
{
    run(data, size);
    int64_t live = tn__memory_live();
    run(data, size);
    fuzz_check(tn__memory_live() == live, "nothing leaks");
}

#endif
