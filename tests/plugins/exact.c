/* Its tables are those of version 1.0 exactly, and nothing may be read behind
 * them: they end where a page ends. The option `cut` makes one of its
 * extension's table shorter than that. */
#include "fake.h"

#include <sys/mman.h>

enum { PAGE = 4096 };

static void *at_end(const void *table, uint32_t size)
{
    char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || mprotect(page + PAGE, PAGE, PROT_NONE))
        abort();
    char *at = page + PAGE - size;
    memcpy(at, table, size);
    memcpy(at, &size, sizeof size);
    return at;
}

static tn_status no_conv(tn_queue *queue, const tn_conv_args *args)
{
    (void)queue;
    (void)args;
    return host->fail(TN_ERR_UNSUPPORTED, "not today");
}

static tn_status fits(tn_plugin_device *device)
{
    (void)device;
    return TN_OK;
}

static tn_status no_lapack(tn_queue *queue, const tn_lapack_args *args)
{
    (void)queue;
    (void)args;
    return host->fail(TN_ERR_UNSUPPORTED, "not today");
}

static const void *extension(const char *name, uint32_t version)
{
    static const tn_conv_extension conv = {.run = no_conv};
    static const tn_lapack_extension lapack = {.fits = fits, .run = no_lapack};
    const uint32_t cut = (uint32_t)number("cut", 0);
    if (version == 1 && strcmp(name, "conv") == 0)
        return at_end(&conv, TN_CONV_EXTENSION_SIZE_1_0 - cut);
    if (version == 1 && strcmp(name, "lapack") == 0)
        return at_end(&lapack, TN_LAPACK_EXTENSION_SIZE_1_0);
    return NULL;
}

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "exact");
    table->extension = extension;
    return at_end(table, TN_PLUGIN_SIZE_1_0);
}
