/* vendor.c: imitates a library of a driver: when it is loaded, it starts a
 * thread and sets an environment variable. In a folder of its own this is not a
 * fault of the plugin; in the plugin's folder the library counts as the
 * plugin's code. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void *work(void *nothing)
{
    pause();
    return nothing;
}

void vendor_open(void);
void vendor_open(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, work, NULL) == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    setenv("VENDOR_IS_OPEN", "1", 1);
}
