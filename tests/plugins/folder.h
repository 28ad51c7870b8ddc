/* folder.h: makes folders of plugins for a test: symbolic links to built
 * plugins, with manifests that the test writes. */
#ifndef TN_TESTS_FOLDER_H
#define TN_TESTS_FOLDER_H

#include "tap.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder_root[512]; /* the folder of the test, removed at its end */

/* Writes the path of a built plugin: libtool puts check_LTLIBRARIES into
 * $top_builddir/.libs. */
static inline void folder_plugin(char *out, size_t room, const char *name)
{
    const char *build = getenv("top_builddir");
    snprintf(out, room, "%s/.libs/tn_%s.so", build ? build : ".", name);
}

/* Creates the folder of the test. Bails out if plugins are missing. */
static inline void folder_start(void)
{
    char path[PATH_MAX];
    folder_plugin(path, sizeof path, "fake");
    if (access(path, R_OK))
        bail_out("%s is missing: run this by make check", path);
    const char *place = getenv("TMPDIR");
    snprintf(folder_root, sizeof folder_root, "%s/tenon-test-XXXXXX",
             place ? place : "/tmp");
    if (!mkdtemp(folder_root))
        bail_out("no folder for the test in %s", folder_root);
}

static inline void folder_end(void)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", folder_root);
    if (system(command))
        note("%s could not be removed", folder_root);
}

/* Writes root/folder/file; creates the folder. */
static inline void folder_write(const char *folder, const char *file,
                                const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder_root, folder);
    if (mkdir(path, 0700) && errno != EEXIST)
        bail_out("no folder %s", path);
    snprintf(path, sizeof path, "%s/%s/%s", folder_root, folder, file);
    FILE *out = fopen(path, "w");
    if (!out || fputs(text, out) < 0 || fclose(out))
        bail_out("%s cannot be written", path);
}

/* Links the built plugin `name` into root/folder under the name `as`. Writes a
 * manifest unless that is NULL. */
static inline void folder_add(const char *folder, const char *name,
                              const char *as, const char *manifest)
{
    char from[PATH_MAX], to[PATH_MAX], file[128];
    snprintf(file, sizeof file, "tn_%s.conf", as);
    if (manifest)
        folder_write(folder, file, manifest);
    else
        folder_write(folder, "nothing", "");
    folder_plugin(from, sizeof from, name);
    snprintf(to, sizeof to, "%s/%s/tn_%s.so", folder_root, folder, as);
    if (symlink(from, to))
        bail_out("no link %s", to);
}

/* Runs body in a child process and returns its output, because a process
 * searches plugins only once. */
static inline const char *in_child(void (*body)(void))
{
    static char text[65536];
    int fd[2];
    if (pipe(fd))
        bail_out("no pipe");
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        dup2(fd[1], STDOUT_FILENO);
        close(fd[0]);
        alarm(600); /* ends a child that hangs */
        body();
        fflush(stdout);
        _exit(0);
    }
    close(fd[1]);
    size_t length = 0;
    ssize_t got;
    while (length + 1 < sizeof text &&
           (got = read(fd[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = 0;
    close(fd[0]);
    int status;
    waitpid(pid, &status, 0);
    if (status)
        snprintf(text, sizeof text, "the child ended with status %d", status);
    return text;
}

#endif
