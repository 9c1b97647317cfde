/* The floor: the least that can be done for commands that come over a pipe. One line asks ("number
 * command"), a forked worker starts the shell, reads its output to the end, waits for it, and one
 * line answers ("number status bytes"). No sandbox, no log, no limits. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void work(long number, const char *command) {
    int ends[2];
    signal(SIGCHLD, SIG_DFL);
    if (pipe(ends) != 0) _exit(1);
    pid_t shell = vfork();
    if (shell == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        close(0);
        execl("/bin/sh", "sh", "-c", command, (char *)0);
        _exit(127);
    }
    close(ends[1]);
    char output[2048], answer[96];
    long bytes = 0;
    ssize_t length;
    while ((length = read(ends[0], output, sizeof output)) > 0) bytes += length;
    int status = 0;
    waitpid(shell, &status, 0);
    int size = snprintf(answer, sizeof answer, "%ld %d %ld\n", number, status, bytes);
    _exit(write(1, answer, size) == size ? 0 : 1);
}

int main(void) {
    char *line = NULL;
    size_t capacity = 0;
    signal(SIGCHLD, SIG_IGN);
    while (getline(&line, &capacity, stdin) > 0) {
        char *command;
        long number = strtol(line, &command, 10);
        command += strspn(command, " ");
        command[strcspn(command, "\n")] = 0;
        if (fork() == 0) work(number, command);
    }
    return 0;
}
