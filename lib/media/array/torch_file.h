/* torch_file.h: a file of torch.save, and its values by their paths. */
#ifndef TN_MEDIA_ARRAY_TORCH_FILE_H
#define TN_MEDIA_ARRAY_TORCH_FILE_H

#include <media/array/pickle.h>
#include <media/array/zip.h>
#include <tenon/torch_file.h>

/* A value of the tree, and its path. */
typedef struct tn__torch_entry {
    const char *name;
    const tn__pickle_value *value;
} tn__torch_entry;

struct tn_torch_file {
    tn_object object;
    tn__array_source source;
    tn__zip zip;             /* of the new format */
    bool is_zip;
    bool swapped;            /* the elements are not in the byte order of this
                                machine */
    const char *folder;      /* the folder within the zip file that contains
                                data.pkl; PyTorch usually calls it "archive" */
    tn__pickle pickle;       /* owns values, names and storages */
    tn__torch_entry *entry;  /* owned, in the order of the tree */
    tn__torch_entry **sorted;/* owned, by name */
    tn__torch_entry **tensor, **other; /* owned: tensors, and other values */
    size_t count, room, tensor_count, other_count, name_bytes;
};

/* Checks an argument; the first also rejects NULL. */
bool tn__torch_file_check(const tn_torch_file *file, const char *call);
bool tn__torch_file_is(const tn_torch_file *file, const char *call);
/* Returns the entry with that path, or NULL. */
const tn__torch_entry *tn__torch_find(const tn_torch_file *file,
                                      const char *name);
/* Returns the entry with that path, or records that there is none. */
const tn__torch_entry *tn__torch_need(const tn_torch_file *file,
                                      const char *name, const char *call);

/* Lists all values below root by their paths. */
tn_status tn__torch_list(tn_torch_file *file, const tn__pickle_value *root,
                         const char *call);
/* Runs the pickles of a file: sets is_zip, swapped and the offsets of storages,
 * and returns the outermost value. */
tn__pickle_value *tn__torch_read_zip(tn_torch_file *file, const char *call);
tn__pickle_value *tn__torch_read_old(tn_torch_file *file, const char *call);

/* Reads the elements of a tensor in row-major order and in the byte order of the
 * file to memory of tn__array_alloc, or returns NULL with an error. */
void *tn__torch_elements(tn_torch_file *file, const tn__torch_tensor *tensor,
                         const char *name, const char *call);

#endif
