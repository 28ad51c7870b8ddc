/* histogram.c: writes the histogram of a tensor's elements as an event. The
 * bins are those of torch.utils.tensorboard. */
#include <media/run/event_file.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <tenon/ops.h>

/* Edges for each sign: 1e-12, 1.1e-12, ... below 1e20. */
enum { MAX_EDGES = 2000 };

/* Writes the edges of the bins in ascending order and returns their number. */
static int make_edges(double *edge)
{
    int count = 0;
    for (double v = 1e-12; v < 1e20; v *= 1.1)
        count++;
    const int zero = count;
    edge[zero] = 0;
    double v = 1e-12;
    for (int i = 1; i <= count; i++, v *= 1.1) {
        edge[zero + i] = v;
        edge[zero - i] = -v;
    }
    return 2 * count + 1;
}

/* Returns the number of edges that are at most value. */
static int edges_below(const double *edge, int count, double value)
{
    int low = 0, high = count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (edge[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void put(tn__message *histo, const double *value, int64_t count)
{
    static const double unlimited = DBL_MAX;
    double edge[MAX_EDGES], bin[MAX_EDGES + 1] = {0};
    const int edges = make_edges(edge);
    double least = value[0], most = value[0], sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        bin[edges_below(edge, edges, value[i])]++;
        least = fmin(least, value[i]);
        most = fmax(most, value[i]);
        sum += value[i];
        squares += value[i] * value[i];
    }
    /* Only the bins from the one before the first element to the last element
     * are written. Bin i ends at edge i; the last bin has no end. */
    int first = 0, last = edges;
    while (bin[first] == 0)
        first++;
    while (bin[last] == 0)
        last--;
    if (first > 0)
        first--;
    tn__message_double(histo, HISTO_MIN, least);
    tn__message_double(histo, HISTO_MAX, most);
    tn__message_double(histo, HISTO_NUM, (double)count);
    tn__message_double(histo, HISTO_SUM, sum);
    tn__message_double(histo, HISTO_SUM_SQUARES, squares);
    double limit[MAX_EDGES + 1];
    for (int i = first; i <= last; i++)
        limit[i] = i < edges ? edge[i] : unlimited;
    tn__message_doubles(histo, HISTO_BUCKET_LIMIT, limit + first,
                        (size_t)(last - first + 1));
    tn__message_doubles(histo, HISTO_BUCKET, bin + first,
                        (size_t)(last - first + 1));
}

/* Copies the elements to host memory as float64. NULL on failure. */
static double *elements(tn_tensor *values, const char *call)
{
    const int64_t count = tn_tensor_numel(values);
    double *host = malloc((size_t)count * sizeof *host);
    if (!host) {
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    const tn_status status =
        tn_tensor_to_array(tn_to_dtype(values, TN_F64), host,
                           (size_t)count * sizeof *host);
    tn_scope_close(scope);
    for (int64_t i = 0; status == TN_OK && i < count; i++) {
        if (!isfinite(host[i])) {
            tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "values",
                                     "element %" PRId64 " of values is %s; "
                                     "expected finite numbers", i,
                                     isnan(host[i]) ? "NAN" : "infinite");
            break;
        }
    }
    if (!tn_error())
        return host;
    free(host);
    return NULL;
}

tn_status tn_events_histogram(tn_events *events, const char *tag,
                              tn_tensor *values, int64_t step)
{
    static const char call[] = "events_histogram";
    const tn_status status = tn__events_check(events, call, tag, step);
    if (status < 0)
        return status;
    if (!tn_object_check_kind(values, "tensor", call, "values"))
        return tn_error_code();
    if (tn_tensor_numel(values) == 0)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "values",
                                        "values has no elements");
    double *host = elements(values, call);
    if (!host)
        return tn_error_code();
    tn__message m = {0}, histo = {0};
    tn__message_text(&m, VALUE_TAG, tag);
    put(&histo, host, tn_tensor_numel(values));
    free(host);
    tn__message_put(&m, VALUE_HISTO, &histo);
    return tn__events_append(events, call, step, &m);
}
