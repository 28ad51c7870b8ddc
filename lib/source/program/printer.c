/* printer.c: appends lines and blocks to a text. */
#include <base/plain.h>
#include <source/program/printer.h>

void tn__device_line(tn__device_printer *p, const char *format, ...)
{
    va_list args;
    char line[512];
    va_start(args, format);
    tn__plain_vprint(line, sizeof line, format, args);
    va_end(args);
    tn__text_add(&p->body, "%*s%s\n", 4 * p->depth, "", line);
}

void tn__device_open(tn__device_printer *p, const char *head)
{
    tn__device_line(p, "%s{", head);
    p->depth++;
}

void tn__device_close(tn__device_printer *p)
{
    p->depth--;
    tn__device_line(p, "}");
}
