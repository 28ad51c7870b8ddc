/* grad_mode.c: gets and sets whether this thread records operator calls for
 * backward. */
#include <base/context.h>
#include <tenon/autograd.h>

bool tn_grad_mode(void)
{
    return !tn__me.modes.not_recording;
}

bool tn_grad_mode_set(bool on)
{
    bool was = !tn__me.modes.not_recording;
    tn__me.modes.not_recording = !on;
    return was;
}
