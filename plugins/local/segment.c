/* segment.c: shared memory by name.
 *
 * The memory is allocated when it is made: a full /dev/shm is an error here,
 * and not a SIGBUS at the first write. The names are removed as soon as all
 * processes have opened them, so that nothing stays behind. */
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const tn_comm_host *local_host;

void *local_segment_make(const char *name, size_t bytes)
{
    int file = shm_open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) {
        local_host->fail(TN_ERR_IO, "local: shared memory %s: %s", name,
                         strerror(errno));
        return NULL;
    }
    int error = posix_fallocate(file, 0, (off_t)bytes);
    void *memory = MAP_FAILED;
    if (!error) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory == MAP_FAILED)
            error = errno;
    }
    close(file);
    if (!error)
        return memory;
    shm_unlink(name);
    local_host->fail(TN_ERR_MEMORY,
                     "local: no room for %zu KB of shared memory in /dev/shm: "
                     "%s (containers: --shm-size)",
                     bytes / 1024, strerror(error));
    return NULL;
}

void *local_segment_try(const char *name, size_t *bytes)
{
    int file = shm_open(name, O_RDWR | O_CLOEXEC, 0);
    if (file < 0)
        return NULL;
    struct stat status;
    void *memory = MAP_FAILED;
    if (!fstat(file, &status) && status.st_uid == geteuid() &&
        status.st_size >= (off_t)sizeof(uint64_t)) {
        *bytes = (size_t)status.st_size;
        memory = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    if (memory == MAP_FAILED)
        return NULL;
    if (atomic_load((_Atomic uint64_t *)memory) == LOCAL_READY)
        return memory;
    munmap(memory, *bytes);
    return NULL;
}

void local_segment_remove(const char *name)
{
    shm_unlink(name);
}

void local_segment_unmap(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}
