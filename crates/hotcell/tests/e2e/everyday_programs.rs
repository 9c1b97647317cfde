//! Programs that everybody uses work under the layers of a cell.

use crate::world::World;

in_every_world! {
    everyday_programs_work,
}

/// A name and a script that fails where what it tries does not work. Each begins in a directory of
/// its own; one that needs what is not installed is left out.
const EVERYDAY: &[(&str, &str, &str)] = &[
    (
        "python3",
        "threads, processes, sockets and memory of Python",
        "python3 -c '
import asyncio, mmap, multiprocessing, os, resource, socket, subprocess, threading
threads = [threading.Thread(target=len, args=([],)) for _ in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert subprocess.check_output([\"echo\", \"hi\"]) == b\"hi\\n\"
with multiprocessing.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
asyncio.run(asyncio.sleep(0))
server = socket.create_server((\"127.0.0.1\", 0)); socket.create_connection(server.getsockname())
mmap.mmap(-1, 4096); os.memfd_create(\"x\"); resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))'",
    ),
    (
        "node",
        "workers, processes and a server of Node",
        "node -e '
const { Worker } = require(\"worker_threads\"), http = require(\"http\"), fs = require(\"fs\");
new Worker(\"1\", { eval: true }).on(\"exit\", () => {
  require(\"child_process\").execSync(\"true\");
  const server = http.createServer((_, reply) => reply.end(\"x\")).listen(0, \"127.0.0.1\", () =>
    http.get({ port: server.address().port }, () =>
      fs.promises.readFile(\"/etc/passwd\").then(() => process.exit(0))));
});'",
    ),
    (
        "git",
        "a repository and two clones of it",
        "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q r; cd r; echo 1 > f; git add f; git commit -qm m; git gc -q; cd ..
        git clone -q r s; git clone -q file://$PWD/r t; test -f s/f; test -f t/f",
    ),
    (
        "cc",
        "a program with a thread, compiled and run",
        "echo '#include <pthread.h>
        static void *f(void *a) { return a; }
        int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0); }' > a.c
        cc -pthread a.c -o a; ./a",
    ),
    (
        "strace",
        "a program under a tracer",
        "strace -f -o trace sh -c 'true; true'; grep -q execve trace",
    ),
    (
        "gdb",
        "a program under a debugger",
        "gdb -batch -ex run -ex 'print $_exitcode' --args /bin/true 2>&1 | grep 'exited normally'",
    ),
    (
        "go",
        "processes and a server of Go, built and tested",
        "export GOFLAGS=-mod=mod GOPROXY=off GOCACHE=$PWD/cache
        echo 'package main
        import (\"net/http\"; \"net/http/httptest\"; \"os/exec\"; \"sync\")
        func main() {
            var all sync.WaitGroup
            for i := 0; i < 50; i++ {
                all.Add(1)
                go func() { defer all.Done(); if exec.Command(\"true\").Run() != nil { panic(1) } }()
            }
            all.Wait()
            server := httptest.NewServer(http.NotFoundHandler())
            if _, err := http.Get(server.URL); err != nil { panic(err) }
        }' > main.go
        go mod init x 2>/dev/null; go build -o x .; ./x; go vet .",
    ),
    (
        "musl-gcc",
        "a program with another C library, linked both ways",
        "echo '#include <pthread.h>
        #include <stdlib.h>
        static void *f(void *a) { return a; }
        int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0) || system(\"true\"); }' > a.c
        musl-gcc a.c -o a; ./a; musl-gcc -static a.c -o b; ./b",
    ),
    (
        "javac",
        "threads, a process and a watch of Java",
        "echo 'import java.nio.file.*;
        public class A { public static void main(String[] a) throws Exception {
            Thread t = new Thread(() -> {}); t.start(); t.join();
            Path.of(\".\").register(FileSystems.getDefault().newWatchService(), StandardWatchEventKinds.ENTRY_CREATE);
            System.exit(new ProcessBuilder(\"true\").start().waitFor());
        } }' > A.java; javac A.java; java A",
    ),
    (
        "ssh-agent",
        "an agent that leaves no core files, or ends",
        "eval $(ssh-agent); ssh-keygen -q -t ed25519 -N '' -f k; ssh-add k 2>&1; kill $SSH_AGENT_PID",
    ),
    ("ip", "addresses", "ip addr show lo | grep 127.0.0.1"),
    (
        "tar",
        "an archive with a pipe, a link and modes",
        "mkdir d o; mkfifo d/p; ln -s p d/l; touch d/x; chmod 750 d/x; tar cf d.tar d
        tar xpf d.tar -C o; test -p o/d/p; test -L o/d/l; test $(stat -c %a o/d/x) = 750",
    ),
    (
        "bash",
        "jobs of a shell",
        "set +e; bash -mc 'sleep 100 & kill -STOP %1; kill -CONT %1; kill %1; wait %1'; test $? = 143",
    ),
    (
        "mv",
        "renaming and linking between directories",
        "mkdir a b; echo 1 > a/f; mv a b/; mv b/a/f f; ln f b/g; rm -r b; cat f",
    ),
    (
        "sh",
        "what programs write below /dev and /proc",
        "echo x > /dev/stdout; echo x > /dev/null; echo x > /dev/shm/x; rm /dev/shm/x
        echo name > /proc/self/comm; echo 600 > /proc/self/oom_score_adj",
    ),
];

fn everyday_programs_work(world: &World) {
    world.text(["spawn", "everyday"]);
    let mut tried = 0;
    for (needed, what, script) in EVERYDAY {
        let script = format!(
            "command -v {needed} >/dev/null || exit 42; set -e; export HOME=$(mktemp -d); cd $HOME\n{script}"
        );
        let finished = world.hotcell(["run", "--cell", "everyday", &script]).run();
        match finished.code() {
            42 => {}
            0 => tried += 1,
            _ => panic!("{what}: {finished:?}"),
        }
    }
    assert!(tried >= 4, "there is little on this machine to try");
}
