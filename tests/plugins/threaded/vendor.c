/* vendor.c: a library as drivers have them: opened, it starts a thread of its
 * own and sets a variable. In a folder of its own that is no fault of the
 * plugin's; beside the plugin it is the plugin's own code. */
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
