/* printer.c: appends lines and blocks to the kernel source that is printed. */
#include <base/plain.h>
#include <source/program/printer.h>

void tn__print_line(tn__printer *p, const char *format, ...)
{
    va_list args;
    char line[512];
    va_start(args, format);
    tn__plain_vprint(line, sizeof line, format, args);
    va_end(args);
    tn__text_add(&p->body, "%*s%s\n", 4 * p->depth, "", line);
}

void tn__print_open(tn__printer *p, const char *head)
{
    tn__print_line(p, "%s{", head);
    p->depth++;
}

void tn__print_close(tn__printer *p)
{
    p->depth--;
    tn__print_line(p, "}");
}
