/* test_replace.c: tests how saving handles symbolic links, file modes, paths of
 * special files, and temporary files of killed processes; and how readers
 * handle special files. All files are in one folder. */
#include <tenon/tenon.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tap.h"

static tn_tensor *x;

static tn_status save(const char *path)
{
    const char *name = "w";
    return tn_safetensors_save(path, &name, &x, 1, NULL, 0);
}

static bool loads(const char *path)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *w = tn_safetensors_tensor(tn_safetensors_open(path), "w");
    bool good = w && tn_item(tn_sum(w)) == 2;
    tn_scope_close(scope);
    return good;
}

static unsigned mode_of(const char *path)
{
    struct stat info;
    return stat(path, &info) < 0 ? 0 : info.st_mode & 07777;
}

static bool is_link(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

/* Returns the number of files whose names contain this text. */
static int count_files(const char *text)
{
    DIR *list = opendir(".");
    int count = 0;
    for (struct dirent *entry; list && (entry = readdir(list));)
        count += strstr(entry->d_name, text) != NULL;
    closedir(list);
    return count;
}

static void test_links(void)
{
    save("real.st");
    ok(symlink("real.st", "link.st") == 0 && symlink("link.st", "two.st") == 0,
       "a link to a link to a file");
    unlink("real.st");
    is_int(save("two.st"), TN_OK, "links to a name that is free are followed");
    ok(is_link("two.st") && is_link("link.st") && !is_link("real.st") &&
           loads("real.st"),
       "both stay, and the file is made");
    chmod("real.st", 0604);
    is_int(save("two.st"), TN_OK, "links to a file too");
    ok(is_link("two.st") && is_link("link.st") && loads("two.st"),
       "and stay");
    is_int(mode_of("real.st"), 0604, "the file keeps its mode");
    mkdir("sub", 0777);
    ok(symlink("../real.st", "sub/up.st") == 0, "a link from another folder");
    is_int(save("sub/up.st"), TN_OK,
           "a relative link is resolved from its folder");
    ok(is_link("sub/up.st") && loads("sub/up.st") && count_files("up.st") == 0,
       "to its file");
    ok(symlink("round.st", "round.st") == 0, "a link to itself");
    is_int(save("round.st"), TN_ERR_IO, "is refused");
    is_str(tn_error(),
           "safetensors_save: round.st: Too many levels of symbolic links",
           "and is reported");
    tn_error_clear();
    unlink("sub/up.st");
    rmdir("sub");

    /* A link in /proc refers to an open file even if the file has no name any
     * more. */
    char open_file[64];
    int fd = open("gone.st", O_CREAT | O_RDWR, 0600);
    snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", fd);
    if (access(open_file, F_OK) == 0) {
        is_int(save(open_file), TN_OK, "a link in /proc leads to its file");
        ok(loads("gone.st") && mode_of("gone.st") == 0600, "by its name");
        close(fd);
        fd = open("gone.st", O_RDWR);
        snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", fd);
        unlink("gone.st");
        is_int(save(open_file), TN_ERR_IO, "of one that has none");
        ok(strstr(tn_error(), "leads to a file that was deleted") &&
               count_files("gone.st") == 0,
           "%s", tn_error());
        tn_error_clear();
    } else {
        skip(4, "there is no /proc");
    }
    close(fd);
}

static void test_modes(void)
{
    mode_t before = umask(027);
    save("new.st");
    is_int(mode_of("new.st"), 0640, "a new file has 0666 less the umask");
    umask(077);
    chmod("new.st", 0444);
    save("new.st");
    is_int(mode_of("new.st"), 0444, "an old one has its mode, however strict");
    chmod("new.st", 0666);
    save("new.st");
    is_int(mode_of("new.st"), 0666, "or wide: the umask is for new ones");
    umask(before);
    char name[240];
    snprintf(name, sizeof name, "%0235d.st", 0);
    is_int(save(name), TN_OK, "a name may be as long as the system allows");
    ok(loads(name), "and is the file's");
    unlink(name);
}

static void refuses(const char *path, const char *kind)
{
    char want[200];
    snprintf(want, sizeof want,
             "safetensors_save: %s: %s, not a regular file: give the name of a "
             "file", path, kind);
    struct stat old, now;
    stat(path, &old);
    is_int(save(path), TN_ERR_IO, "saving to %s is refused", kind);
    is_str(tn_error(), want, "and is reported");
    tn_error_clear();
    ok(stat(path, &now) == 0 && old.st_ino == now.st_ino &&
           old.st_mode == now.st_mode,
       "it is still there");

    const char *call[] = {"safetensors_open", "csv_load", "idx_load",
                          "text_load", "dataset_from_csv", "checkpoint_load"};
    for (int i = 0; i < 6; i++) {
        tn_checkpoint none = {.size = sizeof none};
        if (i == 0)
            tn_safetensors_open(path);
        else if (i == 1)
            tn_csv_load(path);
        else if (i == 2)
            tn_idx_load(path);
        else if (i == 3)
            tn_text_load(path);
        else if (i == 4)
            tn_dataset_from_csv(path, NULL);
        else
            tn_checkpoint_load(path, &none);
        snprintf(want, sizeof want, "%s: %s, not a regular file", path, kind);
        ok(tn_error_code() == TN_ERR_IO && strstr(tn_error(), want),
           "%s: %s", call[i], tn_error());
        tn_error_clear();
    }
}

static void test_no_files(void)
{
    alarm(60); /* ends the test if a reader waits for a FIFO */
    mkfifo("pipe", 0666);
    refuses("pipe", "a FIFO");
    ok(symlink("pipe", "to-pipe") == 0, "a link to a FIFO");
    refuses("to-pipe", "a FIFO");
    refuses("/dev/null", "a device");
    refuses(".", "a folder");
    int end = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    if (end >= 0 && bind(end, (void *)&address, sizeof address) == 0)
        refuses("socket", "a socket");
    else
        skip(9, "no socket can be made here");
    close(end);
    unlink("socket");
    unlink("pipe");
    alarm(0);
}

/* ---- temporary files of killed processes --------------------------------- */

/* Starts a process that saves the tensor again and again until it is killed. */
static pid_t saver(const char *path, tn_tensor *large)
{
    int ready[2];
    char byte;
    if (pipe(ready) < 0)
        bail_out("no pipe");
    pid_t child = fork();
    if (child == 0) {
        x = large;
        for (bool told = false;; told = true) {
            save(path);
            if (tn_error() || (!told && write(ready[1], "", 1) != 1))
                _exit(1);
        }
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        bail_out("the saving process did not begin");
    close(ready[0]);
    return child;
}

static void test_left(void)
{
    int left = 0;
    tn_tensor *large = tn_ones(tn_dims(1 << 20));
    for (int i = 0; i < 12; i++) {
        pid_t child = saver("killed.st", large);
        usleep((useconds_t)(500 + 700 * i));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        ok(count_files("killed.st.tmp-") <= 1,
           "at most one file is left: those before it are removed");
        left += count_files("killed.st.tmp-");
        tn_scope *scope = tn_scope_open();
        tn_tensor *w =
            tn_safetensors_tensor(tn_safetensors_open("killed.st"), "w");
        is_int(tn_tensor_numel(w), 1 << 20, "and the file is whole");
        tn_scope_close(scope);
    }
    note("%d of 12 kills left a file", left);

    /* Creates a locked temporary file, one of another machine, and a file that
     * is not a temporary file of Tenon. */
    int held = open("killed.st.tmp-00000000-1-1", O_CREAT | O_RDWR, 0600);
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    futimens(held, old);
    flock(held, LOCK_EX);
    close(open("killed.st.tmp-00000000-1-2", O_CREAT | O_RDWR, 0600));
    int other = open("killed.st.tmp-00000000-1-3", O_CREAT | O_RDWR, 0600);
    futimens(other, old);
    close(other);
    close(open("killed.st.tmp-notes", O_CREAT | O_RDWR, 0600));
    save("killed.st");
    is_int(access("killed.st.tmp-00000000-1-1", F_OK), 0,
           "the temporary file of a running writer is not removed");
    is_int(access("killed.st.tmp-00000000-1-2", F_OK), 0,
           "nor a recent one of another machine");
    is_int(access("killed.st.tmp-00000000-1-3", F_OK), -1,
           "an old one of another machine is removed");
    is_int(access("killed.st.tmp-notes", F_OK), 0,
           "a file whose name only begins like one is not removed");
    is_int(count_files("killed.st.tmp-"), 3, "nothing else is there");
    close(held);
}

/* ---- concurrent saves ---------------------------------------------------- */

static void *save_often(void *failed)
{
    for (int i = 0; i < 50; i++) {
        tn_scope *scope = tn_scope_open();
        if (save("shared.st") < 0) {
            note("%s", tn_error());
            *(int *)failed += 1;
        }
        tn_error_clear();
        tn_scope_close(scope);
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t thread[4];
    int failed[4] = {0};
    for (int i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, save_often, &failed[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    is_int(failed[0] + failed[1] + failed[2] + failed[3], 0,
           "four threads save to one path: none removes another's file");
    ok(loads("shared.st"), "the file is one of theirs");
    is_int(count_files("shared.st.tmp-"), 0, "and nothing is left");
}

static void test_shrink(void)
{
    tn_tensor *big = tn_ones(tn_dims(100, 1000));
    const char *name = "w";
    tn_safetensors_save("shrink.st", &name, &big, 1, NULL, 0);
    tn_safetensors *file = tn_safetensors_open("shrink.st");
    tn_tensor *before = tn_safetensors_tensor(file, "w");
    if (truncate("shrink.st", 4096) < 0)
        bail_out("cannot cut shrink.st");
    ok(tn_item(tn_sum(before)) == 100000,
       "tensors that were read do not depend on the file");
    ok(!tn_safetensors_tensor(file, "w"), "a file that was cut off: %s",
       tn_error());
    is_int(tn_error_code(), TN_ERR_IO, "is an error");
    tn_error_clear();
    tn_safetensors_save("shrink.st", &name, &big, 1, NULL, 0);
    file = tn_safetensors_open("shrink.st");
    tn_safetensors_save("shrink.st", &name, &x, 1, NULL, 0);
    is_int(tn_tensor_numel(tn_safetensors_tensor(file, "w")), 100000,
           "one that was replaced is still there for who opened it");
    int fd = open("shrink.st", O_WRONLY | O_APPEND);
    file = tn_safetensors_open("shrink.st");
    ok(write(fd, "x", 1) == 1, "one that grows in place");
    close(fd);
    ok(!tn_safetensors_tensor(file, "w"), "is refused");
    is_str(tn_error(),
           "safetensors_tensor: shrink.st: was written to since it was opened; "
           "open it again",
           "and is reported");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    /* Files do not depend on the device; a forked child can only use the
     * cpu. */
    setenv("TENON_DEVICE", "cpu", 1);
    x = tn_ones(tn_dims(2));
    char folder[64];
    snprintf(folder, sizeof folder, "replace-test-%ld.tmp", (long)getpid());
    if (mkdir(folder, 0777) < 0 || chdir(folder) < 0)
        bail_out("cannot make %s", folder);
    test_links();
    test_modes();
    test_no_files();
    test_left();
    test_threads();
    test_shrink();
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ok(chdir("..") == 0 && system(command) == 0, "the folder is removed");
    return done_testing();
}
