/* own_formats.c: the file functions for code that reads or writes a format of
 * its own. */
#include <base/error.h>
#include <base/memory.h>
#include <base/state.h>
#include <io/file.h>
#include <tenon/io.h>

struct tn_file {
    tn__file_writer writer;
    tn_status status; /* the first failed write, or TN_OK */
};

static tn_status check(const char *path, const char *call, const void *other,
                       const char *other_name)
{
    const char *missing = !call ? "call" : !path ? "path" : other_name;
    if (path && call && other)
        return TN_OK;
    return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is NULL", call ? call : "file",
                    missing);
}

tn_status tn_file_read(const char *path, const char *call, void **out_data,
                       size_t *out_bytes)
{
    unsigned char *data;
    size_t bytes;
    tn_status status = check(path, call, out_data, "out_data");
    if (status == TN_OK)
        status = check(path, call, out_bytes, "out_bytes");
    if (status == TN_OK)
        status = tn__file_read(path, call, &data, &bytes);
    if (status < 0)
        return status;
    tn__memory_uncount();
    *out_data = data;
    *out_bytes = bytes;
    return TN_OK;
}

tn_status tn_file_write(tn_file *file, const void *data, size_t bytes)
{
    tn_status status = TN_OK;
    if (!data && bytes)
        status = tn__fail(TN_ERR_ARGUMENT, "file_write: {data} is NULL");
    if (!file)
        return tn__fail(TN_ERR_ARGUMENT, "file_write: {file} is NULL");
    if (file->status == TN_OK && status == TN_OK)
        status = tn__file_writer_write(&file->writer, data, bytes);
    if (file->status == TN_OK)
        file->status = status;
    return file->status;
}

tn_status tn_file_replace(const char *path, const char *call,
                          tn_file_producer produce, void *context)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    tn_file file = {.status = TN_OK};
    tn_status status = check(path, call, produce ? path : NULL, "produce");
    if (status == TN_OK)
        status = tn__file_writer_open(&file.writer, path, call);
    if (status < 0)
        return status;
    status = produce(context, &file);
    if (status == TN_OK)
        status = file.status;
    if (status == TN_OK)
        return tn__file_writer_commit(&file.writer);
    tn__file_writer_abandon(&file.writer);
    return status;
}
