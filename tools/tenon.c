/* tenon: reports what this installation can do.
 *
 *   tenon devices      the devices that TENON_DEVICE can name
 *   tenon devices -v   each plugin instead: file, outcome, remedy
 *   tenon info         version, the device that programs get, threads
 *   tenon trace [-o FILE] PROGRAM [ARGUMENT...]
 *                      runs PROGRAM and writes a timeline (trace.json)
 *   tenon trace --summary FILE [--by op|module|shapes]
 *                      prints the time spent in each operator
 *   tenon lm info MODEL
 *                      the sizes of a language model
 *   tenon generate [OPTION...] MODEL [-p TEXT | -i | IDS]
 *                      continues a text, or token ids
 *   tenon embed [OPTION...] MODEL TEXT...
 *                      prints the embedding of each text
 *   tenon tokenize TOKENIZER [TEXT | -f FILE]
 *                      prints the tokens of a text, or with --decode the text
 *                      of ids
 *   tenon onnx info|check|run|bench|diff MODEL.onnx ...
 *                      describes, checks, runs, times and compares an ONNX
 *                      model
 *   tenon plot RUN... [-o FILE]
 *                      draws the curves of training runs
 *   tenon run -n COUNT PROGRAM [ARGUMENT...]
 *                      runs PROGRAM as several processes, on this machine or on
 *                      others
 *   tenon scale --parameters FILE|COUNT --step-ms T [OPTION...]
 *                      predicts steps on many GPUs
 *   tenon checkpoint info|merge|verify PATH ...
 *                      lists, joins and checks checkpoints of training runs
 *   tenon program REPORT [-o FILE]
 *                      draws the program of a compiled function
 *   tenon help [COMMAND], tenon --help, tenon -h
 *   tenon --version
 *
 * Exit status 1 and one line on stderr if something is not available, 2 and
 * the usage on stderr for a wrong command line. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>
#include <tenon/plugin.h>

#include "tenon_checkpoint.h"
#include "tenon_lm.h"
#include "tenon_onnx.h"
#include "tenon_plot.h"
#include "tenon_run.h"
#include "tenon_scale.h"
#include "tenon_program.h"
#include "tenon_tokenize.h"
#include "tenon_trace.h"

/* The commands. The table serves the usage, `tenon help COMMAND`, and the
 * suggestion of a similar name for an unknown command. */
static const struct {
    const char *name;
    const char *forms; /* command lines, each ended by a newline */
    const char *help;  /* help text, which ends with a newline */
} command_table[] = {
    {"devices", "tenon devices [-v]\n",
     "Lists the devices that TENON_DEVICE can name.\n"
     "\n"
     "  -v  report each plugin instead: its file, the outcome of loading it\n"
     "      and how to repair what failed\n"},
    {"info", "tenon info\n",
     "Prints the version of Tenon and what programs get in this environment:\n"
     "plugin folders, threads, device and memory limit.\n"},
    {"trace",
     "tenon trace [-o FILE] PROGRAM [ARGUMENT...]\n"
     "tenon trace --summary FILE [--by op|module|shapes]\n",
     "Runs PROGRAM and writes a timeline of its operators, in the JSON format\n"
     "that chrome://tracing and Perfetto read; or summarizes such a file.\n"
     "\n"
     "  -o FILE         where the timeline goes (trace.json)\n"
     "  --summary FILE  print the time spent in each operator\n"
     "  --by COLUMN     group by op (the default), module, or shapes: the\n"
     "                  operator with the shapes of its inputs\n"},
    {"lm", "tenon lm info MODEL\n",
     "Prints the family, the sizes and the tokenizer of a language model.\n"
     "MODEL is a Hugging Face folder or a GGUF file.\n"},
    {"generate",
     "tenon generate [OPTION...] MODEL [-p TEXT | -i | IDS]\n",
     "Continues a text with a language model, and prints the new text as it\n"
     "comes; then the speed and the memory of the process on stderr. MODEL is\n"
     "a Hugging Face folder or a GGUF file. IDS (\"1,15043,3186\") are token\n"
     "ids, which are continued by ids.\n"
     "\n"
     "  -p TEXT            the text\n"
     "  -i                 a text in each line of the standard input\n"
     "  --chat             texts are the user's messages, which the model\n"
     "                     answers by its chat template; with -i it remembers\n"
     "                     the chat\n"
     "  --system TEXT      the system message of the chat\n"
     "  -n COUNT           at most so many new tokens (128)\n"
     "  --temperature T    draw tokens; without it the most likely one is\n"
     "                     taken\n"
     "  --top-k K, --top-p P, --min-p P\n"
     "                     draw from the most likely tokens only\n"
     "  --seed N           what is drawn depends on N (0)\n"
     "  --dtype NAME       float32, float16 or bfloat16; weights in blocks\n"
     "                     are dequantised. Without it they are used as they\n"
     "                     are\n"
     "  --relaxed          products of bfloat16 weights by the processor's dot\n"
     "                     products: faster, with bits of this machine\n"
     "  --tokenizer PATH   a tokenizer that is not in MODEL\n"},
    {"embed", "tenon embed [OPTION...] MODEL TEXT...\n",
     "Prints the embedding of each text, one in a line. MODEL is a Hugging\n"
     "Face folder or a GGUF file.\n"
     "\n"
     "  --pooling mean|cls|max|last  default: what MODEL says\n"
     "  --ids                        texts are token ids (\"101,7592,102\")\n"
     "  --dtype NAME, --relaxed, --tokenizer PATH\n"
     "                               as for tenon generate\n"},
    {"tokenize",
     "tenon tokenize TOKENIZER [TEXT | -f FILE] [--ids] [--no-special]\n"
     "tenon tokenize TOKENIZER --decode [IDS | -f FILE]\n",
     "Prints the tokens of a text: id, first byte and the byte after the\n"
     "last, token. TOKENIZER is a folder with tokenizer.json, a\n"
     "tokenizer.json, a GGUF file or a tiktoken file. Without TEXT the\n"
     "standard input is read.\n"
     "\n"
     "  -f FILE            read the text from FILE\n"
     "  --ids              print ids alone, in one line\n"
     "  --no-special       do not add special tokens such as <s>\n"
     "  --decode           print the text of ids, separated by blanks\n"
     "  --pattern PATTERN  for a tiktoken file: the regular expression that\n"
     "                     splits a text, or the name of a known one\n"},
    {"onnx",
     "tenon onnx ops\n"
     "tenon onnx info MODEL\n"
     "tenon onnx check MODEL\n"
     "tenon onnx run [-i FILE] [-o FILE] [--size NAME=N]... [--seed N] MODEL\n"
     "tenon onnx bench [-i FILE] [--size NAME=N]... [-n COUNT] [--nodes] "
     "MODEL\n"
     "tenon onnx diff -i FILE [--tolerance T] MODEL [OTHER]\n",
     "Lists the supported operators (ops). Describes an ONNX model (info),\n"
     "lists its unsupported nodes (check), runs it (run), or measures its\n"
     "time and memory (bench). Compares its outputs with those of a file, or\n"
     "node by node with those of another model (diff).\n"
     "\n"
     "  -i FILE         a safetensors file with the inputs, as NAME or\n"
     "                  in.NAME. Inputs that are not in the file are random\n"
     "  -o FILE         writes the outputs to this file, as out.NAME, instead\n"
     "                  of printing them\n"
     "  --size NAME=N   size of a dynamic dimension of random inputs\n"
     "                  (default: 1)\n"
     "  --seed N        seed of random inputs (default: 0)\n"
     "  -n COUNT        number of measured runs (default: 20)\n"
     "  --nodes         also prints the time of each kind of node\n"
     "  --tolerance T   largest allowed difference, relative to the largest\n"
     "                  element (default: 1e-4). If it is exceeded, the exit\n"
     "                  status is 1\n"},
    {"plot",
     "tenon plot [-o FILE] [--title TEXT] [--smooth W] [--log] RUN...\n",
     "Draws the curves of training runs, one plot for each tag and one line for each\n"
     "run, and prints the last value of each curve. RUN is a folder with event files\n"
     "(of Tenon or TensorBoard), an event file, or a CSV file: the steps in its first\n"
     "column, names in its first line. FILE needs no other file and no network.\n"
     "\n"
     "  -o FILE       an HTML page (.html; values under the mouse pointer) or a\n"
     "                picture (.svg); default: curves.html\n"
     "  --title TEXT  heading\n"
     "  --smooth W    also draws a moving average; W, 0 to below 1, is the weight of\n"
     "                the past\n"
     "  --log         logarithmic values, for tags whose values are all above 0\n"},
    {"run", "tenon run -n COUNT [OPTION...] PROGRAM [ARGUMENT...]\n",
     "Runs PROGRAM as COUNT processes, which tn_dist_init joins to a job. Each line\n"
     "of output begins with the rank, as in \"[2] \". When a process fails, the\n"
     "others are ended, and the exit status is that of the first one that failed.\n"
     "Rank 0 reads the standard input, unless it is a terminal.\n"
     "\n"
     "  -n COUNT         number of processes, on this machine 1 to 256; with\n"
     "                   --hosts by default the sum of the slots\n"
     "  --hosts LIST     machines, by mpirun, or srun in an allocation of SLURM:\n"
     "                   a,b:4 has one slot on a and four on b. PROGRAM and tenon\n"
     "                   have the same paths there\n"
     "  --restarts K     runs a job that has failed again, at most K times, without\n"
     "                   the ranks that were killed and the hosts that do not\n"
     "                   answer. PROGRAM finds the number of the restart, 0 in\n"
     "                   the first run, in TENON_RESTART, and goes on from its\n"
     "                   last checkpoint\n"
     "  --sizes LIST     the numbers of processes that a restart may have: 8,4,2,1\n"
     "  --no-prefix      lines as they are\n"
     "  --grace SECONDS  how long the others may run after a failure (3)\n"
     "  --one            runs PROGRAM as the one process that mpirun or srun has\n"
     "                   started here; --hosts uses it\n"},
    {"scale",
     "tenon scale --parameters FILE|COUNT --step-ms T [OPTION...]\n",
     "Predicts the time and the memory of a training step on many GPUs, with the\n"
     "gradients averaged (ddp), optimizer states sharded (zero1) or everything\n"
     "sharded (fsdp; hsdp: within groups of GPUs). docs/scale.md has the formulas.\n"
     "\n"
     "  --parameters FILE|COUNT  a safetensors file with the parameters, or their\n"
     "                           number, in --layers N equal layers\n"
     "  --step-ms T              forward and backward pass of one GPU; or --flops F\n"
     "                           of a step and --speed S, operations in a second\n"
     "  --report FILE            the report of the compiled step\n"
     "                           (TENON_COMPILE_REPORT), for the memory of temporary\n"
     "                           tensors\n"
     "  --gpus N,...             numbers of GPUs (8,64,512,4096)\n"
     "  --bucket-mb S,...        sizes of buckets (5,25,100)\n"
     "  --prefetch K,...         layers that fsdp gathers ahead (0,1)\n"
     "  --shard N                GPUs of a group of hsdp (64)\n"
     "  --weight-bytes, --gradient-bytes, --state-bytes\n"
     "                           bytes of each parameter: weights (2), gradients (2),\n"
     "                           optimizer (12)\n"
     "  --copies C               how often ddp and zero1 read or write a gradient\n"
     "                           beside the collective (4)\n"
     "  --node N                 GPUs of a node (8)\n"
     "  --inside-gbs, --between-gbs   GB/s of a GPU: in its node, to others (360, 45)\n"
     "  --inside-us, --between-us, --launch-us\n"
     "                           latency of a step in a node, to another one, and of\n"
     "                           the start of a collective (3, 12, 20)\n"
     "  --memory-gbs             GB/s of a GPU's memory (2850)\n"
     "  --busy S                 share of a collective's time that compute loses (0)\n"
     "  --jitter S               standard deviation of a GPU's time, as a share (0)\n"},
    {"checkpoint",
     "tenon checkpoint info [-v] PATH\n"
     "tenon checkpoint verify PATH\n"
     "tenon checkpoint merge PATH FILE\n",
     "Lists the tensors of a checkpoint, with their shapes and the number of pieces\n"
     "in which they are (info). Reads all of it and compares the hashes (verify).\n"
     "Writes it as one safetensors file, as a run of one process does (merge).\n"
     "PATH is a folder of checkpoints, of which the latest complete one is meant;\n"
     "one of them (run/step-000000000100); or a file.\n"
     "\n"
     "  -v  also lists where each piece is\n"},
    {"program", "tenon program [-o FILE] REPORT\n",
     "Draws the program of a compiled function as SVG: its calls of the device with\n"
     "the operators that are fused in each, and the memory of temporary tensors\n"
     "over time. REPORT is a file that a program wrote because the variable\n"
     "TENON_COMPILE_REPORT named a folder, or a file with tn_compiled_text.\n"
     "\n"
     "  -o FILE  the picture; default: REPORT with the ending .svg\n"},
    {"help", "tenon help [COMMAND]\n",
     "Describes COMMAND, or lists the commands.\n"},
};
enum { COMMAND_COUNT = sizeof command_table / sizeof *command_table };

/* Prints the command lines of command i. If `first` is true, "usage:" precedes
 * them. */
static void print_forms(FILE *file, int i, bool first)
{
    for (const char *line = command_table[i].forms; *line;) {
        int length = (int)strcspn(line, "\n");
        fprintf(file, "%s%.*s\n", first ? "usage: " : "       ", length, line);
        line += length + 1;
        first = false;
    }
}

static void usage(FILE *file)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        print_forms(file, i, i == 0);
    fputs("       tenon --version\n", file);
}

static int find_command(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(command_table[i].name, name) == 0)
            return i;
    return -1;
}

/* Returns the Levenshtein distance of a and b: how many characters must be
 * inserted, deleted or replaced to make a into b. Uses only the first ROOM - 1
 * characters of b. */
static int edit_distance(const char *a, const char *b)
{
    enum { ROOM = 32 };
    int row[ROOM];
    int length = (int)strnlen(b, ROOM - 1);
    for (int j = 0; j <= length; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int least = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (least > row[j] + 1)
                least = row[j] + 1;
            if (least > row[j - 1] + 1)
                least = row[j - 1] + 1;
            row[j] = least;
        }
    }
    return row[length];
}

/* Reports an unknown command and the nearest known one. Returns 2. */
static int unknown(const char *name)
{
    int nearest = 0, least = edit_distance(command_table[0].name, name);
    for (int i = 1; i < COMMAND_COUNT; i++) {
        int distance = edit_distance(command_table[i].name, name);
        if (distance < least) {
            nearest = i;
            least = distance;
        }
    }
    fprintf(stderr, "tenon: unknown command '%s'; did you mean '%s'?\n", name,
            command_table[nearest].name);
    usage(stderr);
    return 2;
}

/* Prints the help text of a command, or the usage if name is NULL. Returns the
 * exit status. */
static int help(const char *name)
{
    if (!name) {
        usage(stdout);
        puts("\n'tenon help COMMAND' describes one of them.");
        return fflush(stdout) != 0;
    }
    int i = find_command(name);
    if (i < 0)
        return unknown(name);
    print_forms(stdout, i, true);
    printf("\n%s", command_table[i].help);
    return fflush(stdout) != 0;
}

static int complain(void)
{
    fprintf(stderr, "tenon: %s\n", tn_error());
    return 1;
}

/* Prints the devices or, if verbose, the whole load report. The report has a
 * line for each plugin and, indented below it, a line for each device of the
 * plugin. */
static int devices(bool verbose)
{
    const char *report = tn_load_report();
    if (!report)
        return complain();
    if (verbose)
        return fputs(report, stdout) < 0;

    int found = 0;
    for (const char *line = report; *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, "  ", 2) == 0) {
            printf("%.*s\n", (int)(length - 2), line + 2);
            found++;
        }
        line += length + (line[length] == '\n');
    }
    if (!found)
        fputs("tenon: no device; tenon devices -v reports why\n", stderr);
    return !found;
}

/* Prints a value and the environment variable that sets it, for example
 * "2 (TENON_NUM_THREADS is not set)". */
static void row(const char *name, const char *value, const char *variable)
{
    const char *set = getenv(variable);
    printf("%-12s%s (%s%s%s)\n", name, value, variable,
           set && *set ? "=" : " is not set", set ? set : "");
}

/* Prints the version of Tenon, and the device and the number of threads that
 * programs use in this environment. Opens only this device and no other
 * plugin. */
static int info(void)
{
    char text[64];
    printf("tenon %s\n", tn_version());
    printf("%-12s%u.%u\n", "plugin ABI", TN_ABI_MAJOR, TN_ABI_MINOR);
    printf("%-12s%s\n", "plugins in", tn_plugin_folders());
    const char *threads = getenv("TENON_NUM_THREADS");
    bool heard = !threads || !*threads || atoi(threads) == tn_num_threads();
    snprintf(text, sizeof text, "%d%s", tn_num_threads(),
             heard ? "" : ", not the number that was requested");
    row("threads", text, "TENON_NUM_THREADS");
    tn_device *device = tn_device_current();
    if (!device)
        return complain();
    row("device", tn_device_name(device), "TENON_DEVICE");
    printf("%-12s%s\n", "", tn_device_description(device));
    printf("%-12s%s\n", "bit-exact",
           tn_device_is_bit_exact(device) ? "yes" : "no");
    tn_memory_stats memory = {.size = sizeof memory};
    if (tn_memory(device, &memory) < 0)
        return complain();
    if (memory.limit_bytes)
        snprintf(text, sizeof text, "at most %lld bytes",
                 (long long)memory.limit_bytes);
    else
        snprintf(text, sizeof text, "no limit");
    row("memory", text, "TENON_MEM_LIMIT");
    return 0;
}

int main(int count, char **argument)
{
    const char *command = count > 1 ? argument[1] : "";
    bool verbose = count == 3 && strcmp(argument[2], "-v") == 0;

    if (strcmp(command, "devices") == 0 && count == 2 + verbose)
        return devices(verbose);
    if (strcmp(command, "info") == 0 && count == 2)
        return info();
    if (strcmp(command, "--version") == 0 && count == 2)
        return printf("tenon %s\n", tn_version()) < 0;
    bool asked = strcmp(command, "help") == 0;
    if ((asked || strcmp(command, "--help") == 0 ||
         strcmp(command, "-h") == 0) &&
        count <= 2 + asked)
        return help(argument[2]);
    int known = find_command(command), status = 2;
    if (known < 0 && *command && *command != '-')
        return unknown(command);
    if (strcmp(command, "trace") == 0)
        status = tenon_trace(count - 2, argument + 2);
    if (strcmp(command, "lm") == 0)
        status = tenon_lm(count - 2, argument + 2);
    if (strcmp(command, "generate") == 0)
        status = tenon_generate(count - 2, argument + 2);
    if (strcmp(command, "embed") == 0)
        status = tenon_embed(count - 2, argument + 2);
    if (strcmp(command, "tokenize") == 0)
        status = tenon_tokenize(count - 2, argument + 2);
    if (strcmp(command, "onnx") == 0)
        status = tenon_onnx(count - 2, argument + 2);
    if (strcmp(command, "plot") == 0)
        status = tenon_plot(count - 2, argument + 2);
    if (strcmp(command, "scale") == 0)
        status = tenon_scale(count - 2, argument + 2);
    if (strcmp(command, "checkpoint") == 0)
        status = tenon_checkpoint(count - 2, argument + 2);
    if (strcmp(command, "program") == 0)
        status = tenon_program(count - 2, argument + 2);
    if (strcmp(command, "run") == 0 &&
        (status = tenon_run(count - 2, argument + 2)) >= 0)
        return status; /* the program's own, which may be 2 */
    status = status < 0 ? 2 : status;
    if (status == 2 && known >= 0)
        print_forms(stderr, known, true);
    else if (status == 2)
        usage(stderr);
    return status;
}
