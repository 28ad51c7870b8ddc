/* test_container.c: tests lists and dicts of modules and parameters: appending,
 * and access by index and by name. */
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include "tap.h"

static void refused(bool did, tn_status code, const char *message)
{
    ok(!did, "refused: %s", message);
    is_int(tn_error_code(), code, "its code");
    is_str(tn_error(), message, "the message");
    tn_error_clear();
}

static void test_lists(void)
{
    tn_module *a = tn_nn_relu(), *b = tn_nn_linear(2, 2);
    tn_module *list = tn_nn_module_list(a, b);
    is_int(tn_module_child_count(list), 2, "two modules");
    ok(tn_module_child_at(list, 0) == a && tn_module_child_at(list, 1) == b,
       "by number");
    ok(tn_module_child_at(list, -1) == b && tn_module_child_at(list, -2) == a,
       "from the end");
    ok(!tn_module_child_at(list, 2) && !tn_module_child_at(list, -3) &&
           !tn_error(),
       "there are no others");
    tn_module *c = tn_nn_tanh();
    ok(tn_module_append(list, c) == c && tn_module_child(list, "2") == c,
       "a third one");
    is_str(tn_module_child_name(list, -1), "2", "its name");
    ok(tn_module_parameter(list, "1.weight") != NULL, "paths contain numbers");
    refused(tn_forward(list, tn_ones(tn_dims(2))), TN_ERR_UNSUPPORTED,
            "ModuleList: this container has no forward: run its children");
    is_int(tn_module_child_count(tn_nn_module_list()), 0, "an empty list");
    tn_module *copy = tn_module_clone(list);
    is_int(tn_module_child_count(copy), 3, "a copy of a list");
    refused(tn_nn_module_list(a, NULL), TN_ERR_ARGUMENT,
            "nn_module_list: modules[1] is NULL");
    refused(tn_module_append(list, NULL), TN_ERR_ARGUMENT,
            "module_append: child is NULL");
    refused(tn_module_append(NULL, a), TN_ERR_ARGUMENT,
            "module_append: module is NULL");
    refused(tn_module_append(list, list), TN_ERR_ARGUMENT,
            "module_add: \"3\" contains the module it is added to");
    ok(!tn_module_child_count(NULL) && !tn_module_child_at(NULL, 0) &&
           !tn_module_child_name(NULL, 0) && !tn_error(),
       "NULL has no children");
}

static void test_dict(void)
{
    tn_module *dict = tn_nn_module_dict();
    tn_module *a = tn_module_add(dict, "first", tn_nn_linear(2, 3));
    tn_module_add(dict, "second", tn_nn_linear(2, 4));
    ok(tn_module_child(dict, "first") == a, "by name");
    is_str(tn_module_child_name(dict, 1), "second", "names in their order");
    refused(tn_module_add(dict, "first", tn_nn_relu()), TN_ERR_ARGUMENT,
            "ModuleDict: module_add: \"first\": the name is taken");
    refused(tn_forward(dict, tn_ones(tn_dims(2))), TN_ERR_UNSUPPORTED,
            "ModuleDict: this container has no forward: run its children");
    char text[400] = "";
    FILE *file = tmpfile();
    tn_module_print(file, dict);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    is_str(text,
           "ModuleDict(\n"
           "  (first): Linear(in_features=2, out_features=3, bias=True)\n"
           "  (second): Linear(in_features=2, out_features=4, bias=True)\n"
           ")\n",
           "printed as PyTorch does");
}

static void test_parameters(void)
{
    tn_tensor *a = tn_ones(tn_dims(2)), *b = tn_zeros(tn_dims(3));
    tn_module *list = tn_nn_parameter_list(a, b);
    is_int(tn_parameters_count(tn_parameters(list)), 2, "two parameters");
    ok(tn_module_parameter_at(list, 1) == b &&
           tn_module_parameter_at(list, -2) == a &&
           !tn_module_parameter_at(list, 2),
       "by number");
    ok(tn_tensor_requires_grad(a), "they require gradients");
    tn_tensor *c = tn_ones(tn_dims(1));
    ok(tn_module_append_parameter(list, c) == c &&
           tn_module_parameter(list, "2") == c,
       "a third one");
    refused(tn_nn_parameter_list(a, NULL), TN_ERR_ARGUMENT,
            "nn_parameter_list: values[1] is NULL");
    refused(tn_module_append_parameter(list, NULL), TN_ERR_ARGUMENT,
            "module_append_parameter: value is NULL");
    refused(tn_module_append_parameter(
                list, tn_ones(tn_dims(1), .dtype = TN_I64)),
            TN_ERR_DTYPE,
            "requires_grad: x is int64: only floating-point tensors have "
            "gradients");
    is_int(tn_parameters_count(tn_parameters(tn_nn_parameter_list())), 0,
           "an empty list");
}

static void test_sequential(void)
{
    tn_tensor *x = tn_rand(tn_dims(3, 2));
    tn_module *net = tn_nn_sequential(tn_nn_linear(2, 4), tn_nn_relu());
    tn_tensor *h = tn_forward(net, x);
    tn_module_append(net, tn_nn_linear(4, 1));
    ok(tn_tensor_size(tn_forward(net, x), 1) == 1,
       "a sequential runs what is appended");
    tn_module_add(net, "last", tn_nn_relu());
    tn_module_append(net, tn_nn_identity());
    is_int(tn_module_child_count(net), 5, "and what is added");
    tn_tensor *y = tn_forward(net, x);
    ok(y && tn_item(tn_min(y)) >= 0, "in the order of registration");
    tn_module *named = tn_nn_sequential();
    ok(tn_tensor_is_alias(tn_forward(named, x), x),
       "an empty sequential returns its input");
    tn_module_add(named, "body", tn_nn_linear(2, 4));
    tn_module_add(named, "head", tn_nn_linear(4, 1));
    ok(tn_tensor_size(tn_forward(named, x), 1) == 1 &&
           tn_module_parameter(named, "body.weight"),
       "what is added to it has the names that are given");
    refused(tn_nn_sequential(named, NULL), TN_ERR_ARGUMENT,
            "nn_sequential: modules[1] is NULL");
    ok(tn_forward(tn_nn_identity(), h) != NULL &&
           tn_item(tn_all(tn_eq(tn_forward(tn_nn_identity(), h), h))) == 1,
       "identity returns its input");
}

int main(void)
{
    tap_find_plugin();
    test_lists();
    test_dict();
    test_parameters();
    test_sequential();
    ok(!tn_error(), "no error is pending: %s", tn_error() ? tn_error() : "");
    return done_testing();
}
