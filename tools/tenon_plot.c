/* tenon_plot.c: draws the curves of event files and CSV files. */
#include "tenon_plot.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/curves.h>
#include <tenon/error.h>

typedef struct command_line {
    const char *out, *title;
    double smooth;
    bool log_scale;
    int runs; /* number of elements of argument[] that are paths, which are
                 moved to its start */
} command_line;

/* Returns the value of an option, or NULL if argument *i is another one or has
 * no value. */
static const char *value_of(const char *name, int count, char **argument,
                            int *i)
{
    return strcmp(argument[*i], name) == 0 && *i + 1 < count ? argument[++*i]
                                                             : NULL;
}

/* Returns false if the command line is wrong. */
static bool parse(command_line *line, int count, char **argument)
{
    const char *value;
    for (int i = 0; i < count; i++) {
        char *end = NULL;
        if ((value = value_of("-o", count, argument, &i)) != NULL)
            line->out = value;
        else if ((value = value_of("--title", count, argument, &i)) != NULL)
            line->title = value;
        else if ((value = value_of("--smooth", count, argument, &i)) != NULL) {
            line->smooth = strtod(value, &end);
            if (end == value || *end)
                return false;
        } else if (strcmp(argument[i], "--log") == 0)
            line->log_scale = true;
        else if (argument[i][0] == '-')
            return false;
        else
            argument[line->runs++] = argument[i];
    }
    return line->runs > 0;
}

int tenon_plot(int count, char **argument)
{
    command_line line = {.out = "curves.html"};
    if (!parse(&line, count, argument))
        return 2;
    tn_curves *curves = tn_curves_new();
    for (int i = 0; i < line.runs; i++)
        tn_curves_add(curves, argument[i], NULL);
    if (line.title)
        tn_curves_plot(curves, line.out, .title = line.title,
                       .smooth = line.smooth, .log_scale = line.log_scale);
    else
        tn_curves_plot(curves, line.out, .smooth = line.smooth,
                       .log_scale = line.log_scale);
    if (tn_error()) {
        fprintf(stderr, "tenon: %s\n", tn_error());
        return 1;
    }
    for (int i = 0; i < tn_curves_count(curves); i++) {
        const int64_t points = tn_curves_length(curves, i);
        printf("%s  %s: %lld points, last %.6g\n", tn_curves_run(curves, i),
               tn_curves_tag(curves, i), (long long)points,
               tn_curves_values(curves, i)[points - 1]);
    }
    printf("written: %s\n", line.out);
    return fflush(stdout) != 0;
}
