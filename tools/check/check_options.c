/* check_options.c: reads the command line of tenon-plugin-check. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

check_options options = {.level = 2, .seed = 1, .programs = 400, .timeout = 60};

static const char usage[] =
    "usage: tenon-plugin-check [option...] tn_NAME.so\n"
    "\n"
    "  --level L      check up to level 0 (load), 1 (memory and queues) or\n"
    "                 2 (programs and primitives, the default)\n"
    "  --device N     the device to open (0)\n"
    "  --only NAME    run the one check of this name\n"
    "  --seed N       first seed of random programs and primitives (1)\n"
    "  --programs N   how many random programs (400)\n"
    "  --mask NAME,.. check again with each of these optional slots and\n"
    "                 extensions (conv, pool ...) treated as absent, one by\n"
    "                 one, then all at once; \"all\": every one\n"
    "  --timeout S    time limit of one check in seconds (60)\n"
    "  --json         one JSON object instead of lines\n"
    "  --verbose      print the program that a check failed with\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 all passed, 1 something failed, 2 wrong usage.\n";

static int complain(const char *what, const char *value)
{
    fprintf(stderr, "tenon-plugin-check: %s: %s\n", what, value);
    return 2;
}

/* Parses text as an integer within [least, most]. Returns false if text is not
 * such an integer. */
static bool number(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 0);
    *out = value;
    return errno == 0 && end != text && !*end && value >= least &&
           value <= most;
}

static bool masks_known_slots(const char *mask)
{
    if (strcmp(mask, "all") == 0)
        return true;
    while (*mask) {
        size_t length = strcspn(mask, ",");
        if (!by_hand_is_optional(mask, length))
            return false;
        mask += length + (mask[length] == ',');
    }
    return true;
}

static int take(int option, const char *value)
{
    int64_t n = 0;
    switch (option) {
    case 'l':
        if (*value == 'L')
            value++;
        if (!number(value, 0, 2, &n))
            return complain("--level must be 0, 1 or 2, but it is", value);
        options.level = (int)n;
        return -1;
    case 'd':
        if (!number(value, 0, UINT32_MAX, &n))
            return complain("--device must be the number of a device, but it "
                            "is", value);
        options.device = (uint32_t)n;
        return -1;
    case 's':
        if (!number(value, 0, INT64_MAX, &n))
            return complain("no seed", value);
        options.seed = (uint64_t)n;
        return -1;
    case 'p':
        if (!number(value, 1, INT32_MAX, &n))
            return complain("--programs must be a number of at least 1, but it "
                            "is", value);
        options.programs = n;
        return -1;
    case 't':
        if (!number(value, 1, 86400, &n))
            return complain("--timeout must be a number of seconds from 1 to "
                            "86400, but it is", value);
        options.timeout = (int)n;
        return -1;
    case 'm':
        if (!masks_known_slots(value))
            return complain("--mask must list optional slots and extensions, "
                            "but it is", value);
        options.mask = value;
        return -1;
    case 'o':
        options.only = value;
        return -1;
    case 'j':
        options.json = true;
        return -1;
    case 'v':
        options.verbose = true;
        return -1;
    case 'V':
        printf("tenon-plugin-check %s\n", TENON_VERSION);
        return 0;
    case 'h':
        fputs(usage, stdout);
        return 0;
    default:
        fputs(usage, stderr);
        return 2;
    }
}

int options_read(int argc, char **argv)
{
    static const struct option known[] = {
        {"level", required_argument, NULL, 'l'},
        {"device", required_argument, NULL, 'd'},
        {"only", required_argument, NULL, 'o'},
        {"seed", required_argument, NULL, 's'},
        {"programs", required_argument, NULL, 'p'},
        {"mask", required_argument, NULL, 'm'},
        {"timeout", required_argument, NULL, 't'},
        {"json", no_argument, NULL, 'j'},
        {"verbose", no_argument, NULL, 'v'},
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    int option, status = -1;
    while (status < 0 &&
           (option = getopt_long(argc, argv, "", known, NULL)) != -1)
        status = take(option, optarg);
    if (status >= 0)
        return status;
    if (optind != argc - 1) {
        fputs(usage, stderr);
        return 2;
    }
    char *path = realpath(argv[optind], NULL);
    if (!path)
        return complain(argv[optind], strerror(errno));
    bool fits = strlen(path) < sizeof options.path;
    if (fits)
        strcpy(options.path, path);
    free(path);
    return fits ? -1 : complain("too long", argv[optind]);
}

const char *options_of_plugin(const char *key)
{
    const char *file = strrchr(options.path, '/');
    file = file ? file + 1 : options.path;
    if (strncmp(file, "tn_", 3) == 0)
        file += 3;
    char name[128];
    int length = snprintf(name, sizeof name, "TENON_%.*s_%s",
                          (int)strcspn(file, "."), file, key);
    if (length < 0 || (size_t)length >= sizeof name)
        return NULL;
    for (char *c = name; *c; c++)
        *c =
            isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c) : '_';
    return getenv(name);
}
