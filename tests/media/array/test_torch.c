/* test_torch.c: files of torch.save: modules, mistakes, and damaged files.
 * test_goldens.c compares their contents. */
#include "arrays.h"

#include <tenon/torch_file.h>

/* ---- modules -------------------------------------------------------------- */

/* Returns a module with the layers of the one whose state_dict is in
 * pt/resnet-*.pt. */
static tn_module *resnet(void)
{
    tn_module *net = tn_nn_sequential_with(NULL, 0);
    tn_module *layer = tn_nn_sequential(tn_nn_conv2d(2, 2, 3, .bias = false),
                                        tn_nn_batch_norm2d(2));
    tn_module_add(net, "conv1", tn_nn_conv2d(3, 2, 3, .bias = false));
    tn_module_add(net, "bn1", tn_nn_batch_norm2d(2));
    tn_module_add(net, "layer1", layer);
    tn_module_add(net, "fc", tn_nn_linear(2, 3));
    return net;
}

static bool has_weights(tn_module *net, tn_torch_file *file,
                        const char *prefix)
{
    tn_parameter_list *state = tn_module_state(net);
    bool fine = tn_parameters_count(state) == 14;
    for (int i = 0; i < tn_parameters_count(state); i++) {
        char name[200];
        snprintf(name, sizeof name, "%s%s", prefix,
                 tn_parameters_name(state, i));
        tn_tensor *x = tn_torch_file_tensor(file, name);
        fine &= x && tn_item(tn_all(tn_eq(x, tn_parameters_at(state, i)))) == 1;
    }
    return fine && !tn_error();
}

static void check_modules(void)
{
    static const char *const files[][2] = {{"pt/resnet-new-2.pt", ""},
                                           {"pt/resnet-old-2.pt", ""},
                                           {"pt/checkpoint-new-2.pt",
                                            "model."},
                                           {"pt/checkpoint-old-2.pt",
                                            "model."}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tn_torch_file *file = tn_torch_file_open(golden(files[i][0]));
        tn_module *net = resnet();
        is_int(tn_torch_file_load_module(file, net, .prefix = files[i][1]),
               TN_OK, "%s is loaded into a module", files[i][0]);
        ok(has_weights(net, file, files[i][1]), "which has its weights");
        is_str(tn_torch_file_path(file), golden(files[i][0]), "the path");
    }
    tn_torch_file *file = tn_torch_file_open(golden("pt/resnet-new-2.pt"));
    tn_module_report *report = NULL;
    tn_module *net = resnet();
    tn_module_add(net, "head", tn_nn_linear(3, 1));
    ok(tn_torch_file_load_module(file, net) < 0, "a missing tensor");
    refused(TN_ERR_ARGUMENT, "resnet-new-2.pt: the file has no \"head.weight\"",
            "is rejected with the file's name");
    ok(tn_torch_file_load_module(file, net, .strict = false,
                                 .report = &report) == TN_OK &&
           tn_module_report_count(report) == 2,
       "without strict it is reported");
    net = resnet();
    const tn_rename names[] = {{"fc.", "head."}, {NULL, NULL}};
    ok(tn_torch_file_load_module(file, net, .rename = names,
                                 .report = &report) < 0,
       "a name that the module lacks");
    refused(TN_ERR_ARGUMENT, "torch_file_load_module: ", "is rejected");
    is_int(tn_module_report_count(report), 4, "there are four differences");
    tn_module *other = tn_nn_sequential_with(NULL, 0);
    tn_module_add(other, "fc", tn_nn_linear(2, 4));
    ok(tn_torch_file_load_module(file, other, .strict = false) < 0,
       "another shape");
    refused(TN_ERR_SHAPE, "has shape (3, 2) in the file", "is rejected");
    ok(tn_torch_file_load_module(file, net, .prefix = "x.") < 0,
       "a prefix that no path has");
    refused(TN_ERR_ARGUMENT, "the first of 14 is", "the message has a path");
    ok(tn_torch_file_load_module(NULL, net) < 0, "a NULL file");
    refused(TN_ERR_ARGUMENT, "file is NULL", "is rejected");
    ok(tn_torch_file_load_module(file, NULL) < 0, "a NULL module");
    refused(TN_ERR_ARGUMENT, "module is NULL", "is rejected");
    ok(tn_torch_file_load_module(file, net, .prefix = NULL) < 0,
       "a NULL prefix");
    refused(TN_ERR_ARGUMENT, "prefix", "is rejected");
    tn_error_set(TN_ERR_STATE, "pending");
    is_int(tn_torch_file_load_module(file, net), TN_ERR_STATE,
           "nothing is loaded while an error is pending");
    tn_error_clear();
}

/* ---- mistakes ------------------------------------------------------------- */

static void check_mistakes(void)
{
    tn_torch_file *file = tn_torch_file_open(golden("pt/nested-new-2.pt"));
    int64_t integer = -1;
    double real = -1;
    ok(!tn_torch_file_open(NULL), "a NULL path");
    refused(TN_ERR_ARGUMENT, "path is NULL", "is rejected");
    ok(!tn_torch_file_open_memory(NULL, 4), "NULL data");
    refused(TN_ERR_ARGUMENT, "data is NULL", "is rejected");
    ok(!tn_torch_file_open(folder), "a folder");
    refused(TN_ERR_IO, "not a regular file", "is rejected");
    ok(!tn_torch_file_open_memory("", 0), "no bytes");
    refused(TN_ERR_FORMAT, "it was not written by torch.save", "are rejected");
    ok(!tn_torch_file_open(golden("npz/stored.npz")), "an npz file");
    refused(TN_ERR_FORMAT, "without data.pkl", "is rejected");
    ok(!tn_torch_file_tensor(file, "epoch"), "a number as a tensor");
    refused(TN_ERR_ARGUMENT, "is not a tensor", "is rejected");
    ok(!tn_torch_file_tensor(file, "none"), "a missing tensor");
    refused(TN_ERR_ARGUMENT, "has no value \"none\"", "is rejected");
    ok(!tn_torch_file_tensor(file, NULL), "a NULL name");
    refused(TN_ERR_ARGUMENT, "name is NULL", "is rejected");
    ok(!tn_torch_file_tensor(NULL, "x"), "a NULL file");
    refused(TN_ERR_ARGUMENT, "file is NULL", "is rejected");
    ok(tn_torch_file_int(file, "best", &integer) < 0 && integer == -1,
       "0.1 as an integer");
    refused(TN_ERR_DTYPE, "is a floating-point number; expected an integer",
            "is rejected");
    ok(tn_torch_file_int(file, "epoch", NULL) < 0, "no room for an integer");
    refused(TN_ERR_ARGUMENT, "out is NULL", "is rejected");
    ok(tn_torch_file_int(NULL, "epoch", &integer) < 0, "an integer of NULL");
    refused(TN_ERR_ARGUMENT, "file is NULL", "is rejected");
    ok(tn_torch_file_int(file, NULL, &integer) < 0, "an integer without name");
    refused(TN_ERR_ARGUMENT, "name is NULL", "is rejected");
    ok(tn_torch_file_real(file, "name", &real) < 0 && real == -1,
       "a text as a number");
    refused(TN_ERR_DTYPE, "is a string; expected a number", "is rejected");
    ok(tn_torch_file_real(file, "epoch", NULL) < 0, "no room for a number");
    refused(TN_ERR_ARGUMENT, "out is NULL", "is rejected");
    ok(tn_torch_file_real(NULL, "x", &real) < 0, "a number of NULL");
    refused(TN_ERR_ARGUMENT, "file is NULL", "is rejected");
    ok(!tn_torch_file_text(file, "epoch"), "a number as a text");
    refused(TN_ERR_DTYPE, "is an integer; expected a string", "is rejected");
    ok(!tn_torch_file_text(NULL, "x"), "a text of NULL");
    refused(TN_ERR_ARGUMENT, "file is NULL", "is rejected");
    ok(!tn_torch_file_text(file, NULL), "a text without name");
    refused(TN_ERR_ARGUMENT, "name is NULL", "is rejected");
    tn_tensor *x = tn_zeros(tn_dims(1));
    ok(!tn_torch_file_tensor((tn_torch_file *)x, "x"), "a tensor as a file");
    refused(TN_ERR_ARGUMENT, "is a tensor, not a torch file", "is rejected");
    ok(!tn_torch_file_path(NULL) && !tn_torch_file_count(NULL) &&
           !tn_torch_file_name(NULL, 0) && !tn_torch_file_name(file, -1) &&
           !tn_torch_file_name(file, 99) && !tn_torch_file_has(NULL, "x") &&
           !tn_torch_file_has(file, NULL) && !tn_torch_file_has(file, "x") &&
           !tn_torch_file_dtype(NULL, "x") && !tn_torch_file_dtype(file, NULL) &&
           !tn_torch_file_ndim(NULL, "x") && !tn_torch_file_ndim(file, NULL) &&
           !tn_torch_file_shape(NULL, "x") &&
           !tn_torch_file_shape(file, NULL) &&
           !tn_torch_file_is_alias(NULL, "x", "x") &&
           !tn_torch_file_is_alias(file, NULL, NULL) &&
           !tn_torch_file_value_count(NULL) &&
           !tn_torch_file_value_name(NULL, 0) &&
           !tn_torch_file_value_name(file, -1) &&
           !tn_torch_file_value_name(file, 99) &&
           tn_torch_file_kind(NULL, "x") == TN_TORCH_ABSENT &&
           tn_torch_file_kind(file, NULL) == TN_TORCH_ABSENT &&
           tn_torch_file_kind(file, "list.9") == TN_TORCH_ABSENT &&
           !tn_torch_file_length(NULL, "x") &&
           !tn_torch_file_length(file, NULL) && !tn_error(),
       "attributes of NULL are empty");
    ok(tn_torch_file_is_alias(file, "views.t", "views.whole") &&
           !tn_torch_file_is_alias(file, "views.t", "parameter"),
       "views of one storage are known");
    ok(!tn_tensor_is_alias(tn_torch_file_tensor(file, "views.t"),
                           tn_torch_file_tensor(file, "views.whole")),
       "their tensors are copies");
    /* an expanded tensor may be larger than its storage */
    const int64_t before = tn_unpack_limit();
    tn_unpack_limit_set(8);
    ok(!tn_torch_file_tensor(file, "views.expanded"), "60 bytes of 4");
    refused(TN_ERR_IO, "was expanded to 60 bytes", "are limited");
    ok(tn_torch_file_tensor(file, "views.whole"), "others are not");
    tn_unpack_limit_set(before);
}

/* ---- damaged files -------------------------------------------------------- */

/* Reads all of a file in memory, reads past which AddressSanitizer detects.
 * Returns whether something was rejected. */
static bool rejected(const char *data, size_t bytes)
{
    char *copy = malloc(bytes + 1);
    memcpy(copy, data, bytes);
    bool bad = false;
    TN_SCOPE(scope)
    {
        tn_torch_file *file = tn_torch_file_open_memory(copy, bytes);
        free(copy);
        bad = !file;
        for (int i = 0; i < tn_torch_file_count(file); i++)
            bad |= !tn_torch_file_tensor(file, tn_torch_file_name(file, i));
        if (bad != (tn_error() != NULL))
            ok(false, "a failure has a message");
    }
    tn_error_clear();
    return bad;
}

static void check_damage(const char *name)
{
    size_t bytes;
    char *data = read_all(golden(name), &bytes);
    int accepted = 0, changed = 0;
    ok(!rejected(data, bytes), "%s is read", name);
    for (size_t n = 0; n < bytes; n++)
        accepted += !rejected(data, n);
    is_int(accepted, 0, "%s: all %zu truncations are rejected", name, bytes);
    for (size_t n = 0; n < bytes; n++) {
        data[n] ^= 0x55;
        changed += rejected(data, bytes);
        data[n] ^= 0x55;
    }
    ok(changed > 0, "%s: %d of %zu changes are rejected", name, changed,
       bytes);
    free(data);
}

static void check_storages(void)
{
    size_t bytes;
    char *data = read_all(golden("pt/tensor-new-2.pt"), &bytes);
    const char *path = in_folder("s.pt");
    /* the member's name, before it and in the directory */
    for (char *at = data; (at = memmem(at, bytes - (size_t)(at - data),
                                       "/data/0", 7));)
        at[6] = '1';
    write_all(path, data, bytes);
    tn_torch_file *file = tn_torch_file_open(path);
    ok(file && !tn_torch_file_tensor(file, ""), "a storage that is not there");
    refused(TN_ERR_FORMAT, "storage \"0\" is missing", "is rejected");
    free(data);
    data = read_all(golden("pt/tensor-old-2.pt"), &bytes);
    write_all(path, data, bytes);
    file = tn_torch_file_open(path);
    write_all(path, data, bytes - 4);
    ok(!tn_torch_file_tensor(file, ""), "a file that became shorter");
    refused(TN_ERR_IO, "changed after it was opened", "is rejected");
    free(data);
}

/* torch.save(torch.tensor([1-2j, 3-4j]).conj().imag): PyTorch stores 2 and 4
 * with the opposite sign, and says so beside them. */
static void check_negative_bit(void)
{
    static const char file[] =
        "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e\x80\x02"
        "\x4d\xe9\x03\x2e\x80\x02\x7d\x71\x00\x28\x58\x10\x00\x00\x00\x70\x72"
        "\x6f\x74\x6f\x63\x6f\x6c\x5f\x76\x65\x72\x73\x69\x6f\x6e\x71\x01\x4d"
        "\xe9\x03\x58\x0d\x00\x00\x00\x6c\x69\x74\x74\x6c\x65\x5f\x65\x6e\x64"
        "\x69\x61\x6e\x71\x02\x88\x58\x0a\x00\x00\x00\x74\x79\x70\x65\x5f\x73"
        "\x69\x7a\x65\x73\x71\x03\x7d\x71\x04\x28\x58\x05\x00\x00\x00\x73\x68"
        "\x6f\x72\x74\x71\x05\x4b\x02\x58\x03\x00\x00\x00\x69\x6e\x74\x71\x06"
        "\x4b\x04\x58\x04\x00\x00\x00\x6c\x6f\x6e\x67\x71\x07\x4b\x04\x75\x75"
        "\x2e\x80\x02\x63\x74\x6f\x72\x63\x68\x2e\x5f\x75\x74\x69\x6c\x73\x0a"
        "\x5f\x72\x65\x62\x75\x69\x6c\x64\x5f\x74\x65\x6e\x73\x6f\x72\x5f\x76"
        "\x32\x0a\x71\x00\x28\x28\x58\x07\x00\x00\x00\x73\x74\x6f\x72\x61\x67"
        "\x65\x71\x01\x63\x74\x6f\x72\x63\x68\x0a\x46\x6c\x6f\x61\x74\x53\x74"
        "\x6f\x72\x61\x67\x65\x0a\x71\x02\x58\x0e\x00\x00\x00\x39\x33\x38\x37"
        "\x30\x38\x35\x37\x34\x39\x34\x39\x36\x30\x71\x03\x58\x03\x00\x00\x00"
        "\x63\x70\x75\x71\x04\x4b\x04\x4e\x74\x71\x05\x51\x4b\x01\x4b\x02\x85"
        "\x71\x06\x4b\x02\x85\x71\x07\x89\x63\x63\x6f\x6c\x6c\x65\x63\x74\x69"
        "\x6f\x6e\x73\x0a\x4f\x72\x64\x65\x72\x65\x64\x44\x69\x63\x74\x0a\x71"
        "\x08\x29\x52\x71\x09\x7d\x71\x0a\x58\x03\x00\x00\x00\x6e\x65\x67\x71"
        "\x0b\x88\x73\x74\x71\x0c\x52\x71\x0d\x2e\x80\x02\x5d\x71\x00\x58\x0e"
        "\x00\x00\x00\x39\x33\x38\x37\x30\x38\x35\x37\x34\x39\x34\x39\x36\x30"
        "\x71\x01\x61\x2e\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x3f\x00"
        "\x00\x00\xc0\x00\x00\x40\x40\x00\x00\x80\xc0";
    ok(!tn_torch_file_open_memory(file, sizeof file - 1),
       "a tensor with the negative bit");
    refused(TN_ERR_UNSUPPORTED, "resolve_neg", "is rejected");
}

/* ---- names of the table -------------------------------------------------- */

/* Opens a file of the old format whose object is this pickle. */
static tn_torch_file *file_of(const void *object, size_t bytes)
{
    static const char before[] = "\x80\2\x8a\n\x6c\xfc\x9c\x46\xf9\x20\x6a"
                                 "\xa8\x50\x19." /* the magic number */
                                 "\x80\2M\xe9\3.\x80\2}.",
                      after[] = "\x80\2].";
    char data[1024];
    if (sizeof before + bytes + sizeof after > sizeof data)
        bail_out("the pickle is too long");
    memcpy(data, before, sizeof before - 1);
    memcpy(data + sizeof before - 1, object, bytes);
    memcpy(data + sizeof before - 1 + bytes, after, sizeof after - 1);
    return tn_torch_file_open_memory(
        data, sizeof before - 1 + bytes + sizeof after - 1);
}
#define FILE_OF(object) file_of(object, sizeof object - 1)

/* Opens a file that contains a NumPy scalar, as pickle writes it. */
static tn_torch_file *scalar(const char *dtype, char order, const void *data,
                             size_t bytes)
{
    char object[256];
    int n = snprintf(object, sizeof object,
                     "\x80\3cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n"
                     "U%c%s\x89\x88\x87R(K\3U\1%cNNNJ\xff\xff\xff\xffJ\xff"
                     "\xff\xff\xffK%cC", (int)strlen(dtype), dtype, order, 1);
    /* the number of flags is 0, then the state ends */
    memcpy(object + n - 2, "\0tbC", 4);
    n += 2;
    object[n++] = (char)bytes;
    memcpy(object + n, data, bytes);
    memcpy(object + n + bytes, "\x86R.", 3);
    return file_of(object, (size_t)n + bytes + 3);
}

static void check_numpy(void)
{
    static const struct {
        const char *dtype;
        char order;
        const char *data;
        double value;
        int kind;
    } row[] = {
        {"b1", '|', "\1", 1, TN_TORCH_BOOL},
        {"i1", '|', "\xf9", -7, TN_TORCH_INT},
        {"i2", '<', "\1\2", 513, TN_TORCH_INT},
        {"i2", '>', "\1\2", 258, TN_TORCH_INT},
        {"i4", '<', "\xfe\xff\xff\xff", -2, TN_TORCH_INT},
        {"i8", '<', "\xff\xff\xff\xff\xff\xff\xff\xff", -1, TN_TORCH_INT},
        {"u1", '|', "\xc8", 200, TN_TORCH_INT},
        {"u4", '<', "\xff\xff\xff\xff", 4294967295.0, TN_TORCH_INT},
        {"f2", '<', "\0\xb4", -0.25, TN_TORCH_REAL},
        {"f2", '<', "\1\0", 0x1p-24, TN_TORCH_REAL},
        {"f2", '<', "\0\x7c", INFINITY, TN_TORCH_REAL},
        {"f4", '<', "\0\0\x20\xc0", -2.5, TN_TORCH_REAL},
        {"f8", '<', "\0\0\0\0\0\0\xe0\x3f", 0.5, TN_TORCH_REAL},
        {"f8", '>', "\x3f\xe0\0\0\0\0\0\0", 0.5, TN_TORCH_REAL},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        tn_torch_file *file = scalar(row[i].dtype, row[i].order, row[i].data,
                                     (size_t)(row[i].dtype[1] - '0'));
        double value = 99;
        tn_torch_file_real(file, "", &value);
        is_double_near(value, row[i].value, 0, "numpy's %c%s",
                       row[i].order, row[i].dtype);
        is_int(tn_torch_file_kind(file, ""), row[i].kind, "its kind");
        if (tn_error())
            note("%s", tn_error());
        tn_error_clear();
    }
    tn_torch_file *file = scalar("u8", '<', "\1\0\0\0\0\0\0\x80", 8);
    int64_t integer = -1;
    ok(file && tn_torch_file_int(file, "", &integer) < 0 && integer == -1,
       "a uint64 above the largest int64");
    refused(TN_ERR_DTYPE, "an integer beyond int64", "is no int64");
    static const char *const others[] = {"c8", "U1", "M8", "f9", "O", "V2"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[40];
        snprintf(text, sizeof text, "NumPy's dtype %s", others[i]);
        ok(!scalar(others[i], '<', "\0\0\0\0\0\0\0\0", 8), "%s", text);
        refused(TN_ERR_UNSUPPORTED, text, "is rejected by name");
    }
    ok(!scalar("f8", '<', "\0\0\0\0", 4), "a scalar of too few bytes");
    refused(TN_ERR_FORMAT, "wrong arguments for a NumPy scalar", "is rejected");
    ok(!scalar("f8", 'x', "\0\0\0\0\0\0\0\0", 8), "another byte order");
    refused(TN_ERR_FORMAT, "the state of numpy.dtype", "is rejected");
    ok(!FILE_OF("\x80\2cnumpy\ndtype\nU\2f8\x85R."), "a dtype of NumPy alone");
    refused(TN_ERR_UNSUPPORTED, "no part of a tensor", "is rejected");
}

static void check_names(void)
{
    tn_torch_file *file = FILE_OF("\x80\2ccollections\ndefaultdict\n"
                                  "c__builtin__\nlist\n\x85RU\1aK\7s.");
    int64_t integer = 0;
    double real = 0;
    ok(tn_torch_file_int(file, "a", &integer) == TN_OK && integer == 7 &&
           tn_torch_file_kind(file, "") == TN_TORCH_DICT,
       "a defaultdict is a dict");
    file = FILE_OF("\x80\2ccollections\ndefaultdict\nN\x85R.");
    ok(file && tn_torch_file_length(file, "") == 0,
       "one without a factory, too");
    file = FILE_OF("\x80\2cbuiltins\ncomplex\n"
                   "G\x3f\xf8\0\0\0\0\0\0G\xc0\0\0\0\0\0\0\0\x86R.");
    ok(tn_torch_file_real(file, "0", &real) == TN_OK && real == 1.5 &&
           tn_torch_file_real(file, "1", &real) == TN_OK && real == -2,
       "a complex number is a list of two numbers");
    file = FILE_OF("\x80\2c__builtin__\nbytearray\nc_codecs\nencode\n"
                   "X\2\0\0\0abU\6latin1\x86R\x85R.");
    is_str(tn_torch_file_text(file, ""), "ab", "a bytearray is bytes");
    file = FILE_OF("\x80\2c__builtin__\nbytes\n)R.");
    ok(file && tn_torch_file_kind(file, "") == TN_TORCH_BYTES &&
           tn_torch_file_length(file, "") == 0, "no bytes are bytes");
    file = FILE_OF("\x80\2ctorch.serialization\n_get_layout\n"
                   "U\015torch.strided\x85R.");
    is_str(tn_torch_file_text(file, ""), "torch.strided", "a layout is a text");
    file = FILE_OF("\x80\2ctorch\nquint4x2\n.");
    is_str(tn_torch_file_text(file, ""), "torch.quint4x2",
           "a dtype that Tenon does not have is a text");
    static const struct {
        const char *pickle, *text;
    } bad[] = {
        {"\x80\2ccollections\ndefaultdict\ncos\nsystem\n\x85R.",
         "refers to os.system"},
        {"\x80\2cbuiltins\nlist\n)R.", "a call of builtins.list"},
        {"\x80\2cbuiltins\nlist\n.", "no part of a tensor"},
        {"\x80\2ccollections\ndefaultdict\nK\1\x85R.",
         "wrong arguments for defaultdict"},
        {"\x80\2cbuiltins\nbytearray\nK\1\x85R.",
         "wrong arguments for bytearray"},
        {"\x80\2cbuiltins\ncomplex\nK\1K\1\x86R.",
         "wrong arguments for complex"},
        {"\x80\2cbuiltins\neval\n.", "refers to builtins.eval"},
        {"\x80\2ctorch._utils\n_rebuild_qtensor\n.",
         "refers to torch._utils._rebuild_qtensor"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tn_error_clear();
        ok(!file_of(bad[i].pickle, strlen(bad[i].pickle)), "%s is rejected",
           bad[i].text);
        ok(tn_error() && strstr(tn_error(), bad[i].text), "by name: %s",
           tn_error() ? tn_error() : "no error");
    }
    tn_error_clear();
}

int main(void)
{
    plan_later();
    make_folder();
    check_modules();
    check_mistakes();
    check_storages();
    check_negative_bit();
    check_numpy();
    check_names();
    check_damage("pt/tensor-new-2.pt");
    check_damage("pt/big-old.pt");
    check_damage("pt/big-new.pt");
    is_str(tn_error(), NULL, "no error is left");
    return done_testing();
}
