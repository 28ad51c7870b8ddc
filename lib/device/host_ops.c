/* host_ops.c: counts runs of operators that run on the host (copying their
 * tensors there and back), and forbids such runs if the program or
 * TENON_HOST_OPS says so. */
#include <device/device.h>

#include <base/error.h>
#include <base/platform.h>

#include <string.h>

static _Atomic int64_t host_runs;

int64_t tn_host_runs(void)
{
    return atomic_load_explicit(&host_runs, memory_order_relaxed);
}

/* UNSAID means that the program set nothing, so TENON_HOST_OPS decides. */
enum { UNSAID, ALLOWED, REFUSED };
static _Atomic int host_ops;

void tn_host_ops_allow(bool allow)
{
    atomic_store(&host_ops, allow ? ALLOWED : REFUSED);
}

tn_status tn__host_run_begin(const char *what)
{
    int said = atomic_load_explicit(&host_ops, memory_order_relaxed);
    if (said == UNSAID) {
        const char *text = tn__env("TENON_HOST_OPS");
        said = text && strcmp(text, "error") == 0 ? REFUSED : ALLOWED;
        if (text && said == ALLOWED && strcmp(text, "allow") != 0)
            tn__log(1, "TENON_HOST_OPS=%s is neither allow nor error; allow is "
                    "used", text);
        atomic_store(&host_ops, said);
    }
    if (said == REFUSED)
        return tn__fail(TN_ERR_UNSUPPORTED, "%s: runs on the host, which "
                        "TENON_HOST_OPS=error forbids; tn_host_ops_allow(true) "
                        "allows it", what);
    atomic_fetch_add_explicit(&host_runs, 1, memory_order_relaxed);
    return TN_OK;
}
