/* child.c: runs a check in a process of its own, with a time limit. The process
 * writes its report to shared memory. The parent sees whether it also printed,
 * crashed or ended the program. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "memory_guard.h"
#include "origin.h"
#include "random_source.h"

static report *shared;
static const char *slots_masked;

/* ---- within the process ------------------------------------------------- */

void trying(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(shared->trying, sizeof shared->trying, format, args);
    va_end(args);
}

void rule(const char *text)
{
    if (!shared->failed)
        snprintf(shared->rule, sizeof shared->rule, "%s", text ? text : "");
}

bool expect(bool held, const char *format, ...)
{
    if (held || shared->failed)
        return held;
    va_list args;
    va_start(args, format);
    vsnprintf(shared->why, sizeof shared->why, format, args);
    va_end(args);
    shared->failed = true;
    return false;
}

void leave_out(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(shared->why, sizeof shared->why, format, args);
    va_end(args);
    shared->skipped = true;
}

void note_vendors(void)
{
    origin_vendors(shared->noted, sizeof shared->noted);
}

bool has_failed(void)
{
    return shared->failed;
}

void report_case(const random_case *c)
{
    FILE *out = fmemopen(shared->detail, sizeof shared->detail - 1, "w");
    if (!out)
        return;
    random_case_print(c, out);
    fclose(out);
}

void report_device(const tn_device_info *info)
{
    memcpy(shared->uid, info->uid, sizeof shared->uid);
    shared->uid[sizeof shared->uid - 1] = 0;
}

static bool ends(const char *text, size_t room)
{
    return memchr(text, 0, room) != NULL;
}

bool expect_device(const tn_device_info *info)
{
    static const uint8_t register_of[TN_DTYPE_END] = {
#define REGISTER(name, code, text, bytes, kind, reg) [code] = TN_##reg,
        TN_DTYPE_MAP(REGISTER)
#undef REGISTER
    };
    expect(ends(info->name, sizeof info->name) && *info->name,
           "device_info: the device has no name");
    expect(ends(info->uid, sizeof info->uid) && *info->uid,
           "device_info: the device has no uid");
    expect(ends(info->note, sizeof info->note),
           "device_info: the note does not end with a NUL byte");
    expect(info->align && (info->align & (info->align - 1)) == 0 &&
               info->align <= 65536,
           "device_info: alignment %u is no power of two up to 65536",
           info->align);
    expect(info->caps & TN_CAP_BIT_EXACT || *info->note,
           "device_info: is not bit-exact, and the note does not say why");
    rule("F32 is in register_types and storage_types; register_types has the "
         "register type of each dtype in storage_types");
    expect(info->storage_types >> TN_F32 & 1 &&
               info->register_types >> TN_F32 & 1,
           "device_info: F32 is not stored or not computed: storage_types "
           "0x%x, register_types 0x%x",
           info->storage_types, info->register_types);
    expect(!((info->storage_types | info->register_types) >> TN_DTYPE_END) &&
               !((info->storage_types | info->register_types) & 1),
           "device_info: unknown dtypes: storage_types 0x%x, "
           "register_types 0x%x",
           info->storage_types, info->register_types);
    for (tn_dtype dtype = 1; dtype < TN_DTYPE_END; dtype++)
        if (info->storage_types >> dtype & 1)
            expect(info->register_types >> register_of[dtype] & 1,
                   "device_info: stores %s, but does not compute in %s",
                   random_dtype_name(dtype),
                   random_dtype_name(register_of[dtype]));
    if (has_failed())
        return false;
    rule(NULL);
    return true;
}

bool open_table(by_hand *h)
{
    by_hand_how how = {.path = options.path,
                       .option = options_of_plugin,
                       .mask = slots_masked,
                       .wrap_host = guard_host,
                       .wrap = guard_wrap};
    if (!expect(by_hand_load(h, &how), "cannot be loaded: %s",
                *by_hand_failure() ? by_hand_failure() : "no reason given"))
        return false;
    snprintf(shared->name, sizeof shared->name, "%s",
             h->plugin->name ? h->plugin->name : "");
    snprintf(shared->version, sizeof shared->version, "%s",
             h->plugin->version ? h->plugin->version : "");
    return true;
}

bool open_device(by_hand *h)
{
    uint32_t count = 0;
    if (!open_table(h))
        return false;
    if (!expect(h->plugin->device_count(&count) == TN_OK, "device_count: %s",
                by_hand_failure()))
        return false;
    if (count == 0) {
        leave_out("the plugin finds no device on this machine: %s",
                  *by_hand_failure() ? by_hand_failure() : "no reason given");
        return false;
    }
    if (!expect(options.device < count, "device %u does not exist: the number "
                                        "of devices is %u",
                options.device, count) ||
        !expect(by_hand_open_device(h, options.device),
                "device %u cannot be opened: %s", options.device,
                by_hand_failure()))
        return false;
    report_device(&h->info);
    return expect_device(&h->info);
}

static _Noreturn void be_child(const check *c, int output)
{
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    guard_watch();
    origin_watch();
    c->body(c->argument);
    shared->interpreted = by_hand_interpreted();
    fflush(NULL); /* the plugin's output may still be in a buffer of stdio */
    shared->ended = true;
    exit(0); /* not _exit, so that the plugin's atexit handlers run */
}

/* ---- from outside ------------------------------------------------------- */

CHECK_PRINTF(1, 2) static void fail(const char *format, ...)
{
    size_t length = shared->failed ? strlen(shared->why) : 0;
    if (length && length + 2 < sizeof shared->why) {
        memcpy(shared->why + length, "; ", 3);
        length += 2;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(shared->why + length, sizeof shared->why - length, format, args);
    va_end(args);
    shared->failed = true;
    shared->skipped = false;
}

/* Reads the first line that the process printed. Returns false if it printed
 * nothing. */
static bool printed(int output, char *line, size_t room)
{
    ssize_t length = pread(output, line, room - 1, 0);
    line[length > 0 ? length : 0] = 0;
    line[strcspn(line, "\n")] = 0;
    return length > 0;
}

/* Waits until the process ends, which closes its end of the pipe `alive`. If it
 * does not end within the time limit, kills it and returns false. */
static bool ends_in_time(pid_t child, int alive, int *status)
{
    struct pollfd end = {.fd = alive};
    int ready;
    do
        ready = poll(&end, 1, options.timeout * 1000);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        kill(child, SIGKILL);
    while (waitpid(child, status, 0) < 0 && errno == EINTR)
        ;
    return ready != 0;
}

static void judge(int status, bool in_time, int output)
{
    char line[200];
    bool said = printed(output, line, sizeof line);
    if (!in_time)
        fail("did not end within %d s", options.timeout);
    else if (WIFSIGNALED(status))
        fail("ended by signal %d (%s)%s%s", WTERMSIG(status),
             strsignal(WTERMSIG(status)), said ? ": " : "", said ? line : "");
    else if (!shared->ended)
        fail("the plugin ended the program with status %d",
             WEXITSTATUS(status));
    else if (WEXITSTATUS(status) != 0)
        fail("exited with status %d", WEXITSTATUS(status));
    if (said && !WIFSIGNALED(status))
        fail("printed \"%s\"", line);
}

const report *child_run(const check *c, const char *mask)
{
    int alive[2];
    FILE *output = tmpfile();
    if (!shared) {
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
            shared = NULL;
    }
    if (!output || !shared || pipe(alive) != 0) {
        perror("tenon-plugin-check");
        exit(2);
    }
    memset(shared, 0, sizeof *shared);
    slots_masked = mask;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(alive[0]);
        be_child(c, fileno(output));
    }
    close(alive[1]);
    if (child < 0) {
        perror("tenon-plugin-check");
        exit(2);
    }
    int status = 0;
    bool in_time = ends_in_time(child, alive[0], &status);
    close(alive[0]);
    judge(status, in_time, fileno(output));
    fclose(output);
    return shared;
}
