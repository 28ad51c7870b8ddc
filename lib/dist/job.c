/* job.c: the job of this process, and the lock under which it is used. */
#include <dist/dist.h>

#include <pthread.h>
#include <time.h>

tn__dist_job *tn__dist_job_open;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tn__dist_lock(void)
{
    pthread_mutex_lock(&lock);
}

void tn__dist_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

uint64_t tn__dist_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
