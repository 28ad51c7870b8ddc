/* A correct plugin whose function tables end at an inaccessible page, exactly
 * after the fields of version 1.0, so any access after them is a fault. The
 * option `cut` shortens the tables of its extensions by this number of
 * bytes. */
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

#define NO_RUN(name)                                                           \
    static tn_status no_##name(tn_queue *queue, const tn_##name##_args *args)  \
    {                                                                          \
        (void)queue;                                                           \
        (void)args;                                                            \
        return host->fail(TN_ERR_UNSUPPORTED, "not today");                    \
    }
NO_RUN(conv)
NO_RUN(pool)
NO_RUN(attention)
NO_RUN(product)
NO_RUN(lapack)
NO_RUN(quantised_product)
NO_RUN(epilogue)

static tn_status fits(tn_plugin_device *device)
{
    (void)device;
    return TN_OK;
}

static tn_status attention_fits(tn_plugin_device *device,
                                const tn_attention_args *args)
{
    (void)device;
    return no_attention(NULL, args);
}

static tn_status takes(tn_plugin_device *device, uint32_t format)
{
    (void)device;
    (void)format;
    return host->fail(TN_ERR_UNSUPPORTED, "not today");
}

static tn_status no_begin(tn_queue *queue)
{
    (void)queue;
    return host->fail(TN_ERR_UNSUPPORTED, "not today");
}

static tn_status no_end(tn_queue *queue, tn_recorded **recorded)
{
    (void)recorded;
    return no_begin(queue);
}

static tn_status no_run(tn_queue *queue, tn_recorded *recorded, uint64_t tag)
{
    (void)recorded;
    (void)tag;
    return no_begin(queue);
}

static void release(tn_plugin_device *device, tn_recorded *recorded)
{
    (void)device;
    (void)recorded;
}

static tn_status no_prepare(tn_queue *queue, const tn_launch_item *item,
                            uint32_t count, tn_launch_list **list)
{
    (void)item;
    (void)count;
    (void)list;
    return no_begin(queue);
}

static tn_status no_list_run(tn_queue *queue, tn_launch_list *list,
                             uint64_t tag)
{
    (void)list;
    (void)tag;
    return no_begin(queue);
}

static void list_release(tn_plugin_device *device, tn_launch_list *list)
{
    (void)device;
    (void)list;
}

static const void *extension(const char *name, uint32_t version)
{
    static const tn_conv_extension conv = {.run = no_conv};
    static const tn_pool_extension pool = {.run = no_pool};
    static const tn_product_extension product = {.run = no_product};
    static const tn_attention_extension attention = {.fits = attention_fits,
                                                     .run = no_attention};
    static const tn_lapack_extension lapack = {.fits = fits, .run = no_lapack};
    static const tn_quantised_product_extension quantised_product = {
        .takes = takes, .run = no_quantised_product};
    static const tn_graph_replay_extension graph_replay = {
        .begin = no_begin, .end = no_end, .run = no_run, .release = release};
    static const tn_epilogue_extension epilogue = {.takes = takes,
                                                   .run = no_epilogue};
    static const tn_launch_list_extension launch_list = {
        .prepare = no_prepare, .run = no_list_run, .release = list_release};
    static const struct {
        const char *name;
        const void *table;
        uint32_t size;
    } tables[] = {
        {"conv", &conv, TN_CONV_EXTENSION_SIZE_1_0},
        {"pool", &pool, TN_POOL_EXTENSION_SIZE_1_0},
        {"product", &product, TN_PRODUCT_EXTENSION_SIZE_1_0},
        {"attention", &attention, TN_ATTENTION_EXTENSION_SIZE_1_0},
        {"lapack", &lapack, TN_LAPACK_EXTENSION_SIZE_1_0},
        {"graph-replay", &graph_replay, TN_GRAPH_REPLAY_EXTENSION_SIZE_1_0},
        {"quantised-product", &quantised_product,
         TN_QUANTISED_PRODUCT_EXTENSION_SIZE_1_0},
        {"epilogue", &epilogue, TN_EPILOGUE_EXTENSION_SIZE_1_0},
        {"launch-list", &launch_list, TN_LAUNCH_LIST_EXTENSION_SIZE_1_0},
    };
    const uint32_t cut = (uint32_t)number("cut", 0);
    for (size_t i = 0; version == 1 && i < sizeof tables / sizeof *tables; i++)
        if (strcmp(name, tables[i].name) == 0)
            return at_end(tables[i].table, tables[i].size - cut);
    return NULL;
}

const tn_plugin *tenon_plugin_v1(const tn_host *h)
{
    tn_plugin *table = fake_table(h, "exact");
    table->extension = extension;
    return at_end(table, TN_PLUGIN_SIZE_1_0);
}
