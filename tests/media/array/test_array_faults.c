/* test_array_faults.c: makes each allocation fail in turn, while arrays are
 * read and written. */
#include "../../fault_sweep.h"

#include "arrays.h"

#include <tenon/npy.h>
#include <tenon/safetensors_shards.h>
#include <tenon/torch_file.h>

static tn_tensor *x, *tensors[2];
static tn_npz *npz;
static tn_torch_file *torch;
static char stem[300];
static const char *const names[] = {"first", "second"};

static bool try_npy(void)
{
    void *data = NULL;
    size_t bytes = 0;
    const bool fine =
        tn_npy_save_memory(x, &data, &bytes, .fortran_order = true) == TN_OK &&
        tn_npy_load_memory(data, bytes);
    free(data);
    return fine;
}

static bool try_npz_save(void)
{
    return tn_npz_save(in_folder("x.npz"), names, tensors, 2,
                       .compressed = true) == TN_OK;
}

static bool try_npz_open(void)
{
    return tn_npz_open(in_folder("x.npz"));
}

static bool try_npz_tensor(void)
{
    return tn_npz_has(npz, "first") && tn_npz_tensor(npz, "first");
}

static bool try_torch_new(void)
{
    return tn_torch_file_open(golden("pt/checkpoint-new-2.pt"));
}

static bool try_torch_old(void)
{
    return tn_torch_file_open(golden("pt/checkpoint-old-2.pt"));
}

static bool try_torch_tensor(void)
{
    return tn_torch_file_tensor(torch, "views.t");
}

static bool try_shards_save(void)
{
    return tn_safetensors_shards_save(stem, names, tensors, 2,
                                      .max_shard_bytes = 64) == TN_OK;
}

static bool try_shards_open(void)
{
    char path[340];
    snprintf(path, sizeof path, "%s.safetensors.index.json", stem);
    return tn_safetensors_shards_open(path);
}

int main(void)
{
    if (!MALLOC_FAULTS)
        return printf("1..0 # SKIP malloc cannot be made to fail here\n") < 0;
    plan_later();
    tn_set_num_threads(1);
    make_folder();
    tn_scope *scope = tn_scope_open();
    x = tensors[0] = tn_ones(tn_dims(4, 6));
    tensors[1] = tn_ones(tn_dims(3), .dtype = TN_I64);
    snprintf(stem, sizeof stem, "%s", in_folder("shard"));
    torch = tn_torch_file_open(golden("pt/nested-new-2.pt"));
    if (!try_npz_save() || !try_shards_save() || !torch)
        bail_out("%s", tn_error());
    npz = tn_npz_open(in_folder("x.npz"));
    if (!npz)
        bail_out("%s", tn_error());
    fails_in_turn(try_npy, "npy");
    fails_in_turn(try_npz_save, "npz_save");
    fails_in_turn(try_npz_open, "npz_open");
    fails_in_turn(try_npz_tensor, "npz_tensor");
    fails_in_turn(try_torch_new, "torch_file_open of the new format");
    fails_in_turn(try_torch_old, "torch_file_open of the old format");
    fails_in_turn(try_torch_tensor, "torch_file_tensor");
    fails_in_turn(try_shards_save, "safetensors_shards_save");
    fails_in_turn(try_shards_open, "safetensors_shards_open");
    tn_scope_close(scope);
    return done_testing();
}
