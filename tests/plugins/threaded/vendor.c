/* vendor.c: a library like those of drivers: when it is opened, it starts a
 * thread and sets a variable. In a folder of its own that is no fault of the
 * plugin; in the plugin's folder it counts as the plugin's code. */
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
