/* cpu_list.c: the extension "launch-list". Each launch is planned once. A list
 * of several launches is cut into pieces of about the same number of elements,
 * which the threads run after one wake-up: a piece is many small launches, or a
 * part of a large one. */
#include <stdlib.h>

#include "cpu_device.h"
#include "cpu_programs.h"
#include "run/plan.h"

/* Elements of a piece. It is the size of a task of one addition (direct.c). */
#define PIECE_ELEMENTS 65536

typedef struct entry {
    tn_built *built;
    const tn_launch *launch;
    enum {
        PASS,  /* it runs by paths/direct.c */
        READY, /* it runs by blocks */
        WHOLE  /* another path plans it in each run */
    } kind;
    cpu_pass pass;
    cpu_ready *ready; /* owned */
    int64_t tasks;    /* tasks that may run in any order; 0: the launch runs on
                       * its own, before the pieces */
    int64_t elements; /* of a task */
} entry;

/* Tasks [first, end) of the list, which are counted over all launches. The first
 * of them is task `task` of launch `at`. */
typedef struct piece {
    int64_t first, end;
    uint32_t at;
    int64_t task;
} piece;

struct tn_launch_list {
    piece *piece; /* owned; NULL if the launches run one after the other */
    int64_t piece_count;
    uint32_t count;
    entry entry[];
};

static void release(tn_plugin_device *device, tn_launch_list *list)
{
    (void)device;
    if (!list)
        return;
    for (uint32_t i = 0; i < list->count; i++)
        tn__cpu_ready_free(list->entry[i].ready);
    free(list->piece);
    free(list);
}

/* ---- plans --------------------------------------------------------------- */

static bool entry_plan(entry *e, const tn_launch_item *item)
{
    const cpu_path *const *path = item->built->path;
    *e = (entry){.built = item->built, .launch = item->launch, .kind = WHOLE};
    if (*path == &tn__cpu_path_direct) {
        path++;
        if (tn__cpu_pass_plan(&e->pass, e->built, e->launch)) {
            e->kind = PASS;
            e->tasks = e->pass.tasks;
            e->elements = e->tasks ? e->pass.count / e->tasks : 0;
            return true;
        }
    }
    if (*path)
        return true;
    e->kind = READY;
    e->ready = tn__cpu_ready_make(e->built, e->launch);
    if (e->ready)
        e->tasks = tn__cpu_ready_tasks(e->ready, &e->elements);
    return e->ready != NULL;
}

/* Cuts the tasks of all launches into pieces, and stores them in to[] unless it
 * is NULL. Returns the number of pieces. */
static int64_t cut(const tn_launch_list *list, piece *to)
{
    int64_t count = 0, task = 0, elements = PIECE_ELEMENTS;
    for (uint32_t i = 0; i < list->count; i++) {
        const entry *e = &list->entry[i];
        for (int64_t t = 0; t < e->tasks; t++, task++) {
            if (elements >= PIECE_ELEMENTS) {
                if (to)
                    to[count] = (piece){task, task, i, t};
                count++;
                elements = 0;
            }
            elements += e->elements;
            if (to)
                to[count - 1].end = task + 1;
        }
    }
    return count;
}

static tn_status prepare(tn_queue *queue, const tn_launch_item *item,
                         uint32_t count, tn_launch_list **out)
{
    (void)queue;
    tn_launch_list *list =
        calloc(1, sizeof *list + count * sizeof *list->entry);
    bool done = list != NULL;
    for (uint32_t i = 0; i < count && done; i++) {
        list->count = i + 1;
        done = entry_plan(&list->entry[i], &item[i]);
    }
    if (done && count > 1) {
        list->piece_count = cut(list, NULL);
        if (list->piece_count > 1) {
            list->piece = calloc((size_t)list->piece_count,
                                 sizeof *list->piece);
            done = list->piece != NULL;
        }
        if (list->piece)
            cut(list, list->piece);
    }
    if (!done) {
        release(NULL, list);
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "launch_list: out of memory for %u launches",
                                  count);
    }
    *out = list;
    return TN_OK;
}

/* ---- runs ---------------------------------------------------------------- */

static void run_pass(void *pass, int64_t i)
{
    tn__cpu_pass_task(pass, i);
}

static tn_status entry_run(entry *e)
{
    if (e->kind == READY)
        return tn__cpu_ready_run(e->ready);
    if (e->kind == WHOLE)
        return tn__cpu_launch(NULL, e->built, e->launch);
    tn__cpu_pass_point(&e->pass, e->built, e->launch);
    if (e->tasks == 1)
        tn__cpu_pass_task(&e->pass, 0);
    else if (e->tasks > 1)
        tn__cpu_host->parallel_for(e->tasks, run_pass, &e->pass);
    return TN_OK;
}

static void run_piece(void *context, int64_t i)
{
    tn_launch_list *list = context;
    const piece *p = &list->piece[i];
    uint32_t at = p->at;
    int64_t task = p->task;
    for (int64_t t = p->first; t < p->end; t++, task++) {
        while (task == list->entry[at].tasks) {
            at++;
            task = 0;
        }
        entry *e = &list->entry[at];
        if (e->kind == PASS)
            tn__cpu_pass_task(&e->pass, task);
        else
            tn__cpu_ready_task(e->ready, task);
    }
}

/* Runs the launches that have tasks, as pieces. */
static tn_status run_pieces(tn_launch_list *list)
{
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < list->count; i++) {
        entry *e = &list->entry[i];
        if (e->tasks > 0 && e->kind == PASS)
            tn__cpu_pass_point(&e->pass, e->built, e->launch);
        else if (e->tasks > 0)
            tn__cpu_ready_begin(e->ready);
    }
    tn__cpu_host->parallel_for(list->piece_count, run_piece, list);
    for (uint32_t i = 0; i < list->count; i++) {
        entry *e = &list->entry[i];
        tn_status ended =
            e->tasks > 0 && e->kind == READY ? tn__cpu_ready_end(e->ready)
                                             : TN_OK;
        status = status ? status : ended;
    }
    return status;
}

static tn_status run(tn_queue *queue, tn_launch_list *list, uint64_t tag)
{
    (void)queue;
    (void)tag; /* only asynchronous devices have tags */
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < list->count; i++) {
        entry *e = &list->entry[i];
        tn_status ended =
            list->piece && e->tasks > 0 ? TN_OK : entry_run(e);
        status = status ? status : ended;
    }
    if (list->piece) {
        tn_status ended = run_pieces(list);
        status = status ? status : ended;
    }
    return status;
}

const tn_launch_list_extension tn__cpu_list_extension = {
    .size = sizeof tn__cpu_list_extension,
    .prepare = prepare,
    .run = run,
    .release = release,
};
