//! Directories of the host as workspaces: the real files stay as they are until a person says so.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::world::{
    Chance, Era, Finished, Kind, McpClient, World, eventually, kill_9, marked, program,
};

in_every_world! {
    real_files_change_when_their_owner_says_so,
    what_makes_the_host_run_something_is_applied_only_when_named,
    changes_of_the_host_are_seen_at_the_next_command,
    changes_are_part_of_checkpoints_and_each_fork_has_its_own,
    what_is_discarded_is_as_the_host_has_it,
}

in_worlds! { [root, rootless]
    git_make_npm_and_cargo_work_on_a_project,
    odd_names_and_kinds_of_files_are_kept,
    whatever_a_cell_does_arrives,
    a_link_that_the_host_put_in_the_way_leads_nowhere,
    a_cell_that_writes_through_cannot_touch_what_the_host_runs,
    an_agent_gets_only_what_its_operator_named,
    a_killed_apply_leaves_all_or_nothing,
    changes_can_be_applied_while_something_runs,
    a_project_that_was_moved_away_is_not_taken_for_another,
    a_cell_that_has_another_workspace_is_not_taken_for_the_one_that_was_asked_for,
    links_of_a_cell_lead_a_discard_nowhere,
    nothing_that_looks_like_a_repository_gets_by,
    whoever_looks_does_not_disturb_an_apply,
    a_removed_directory_that_the_host_put_something_into_stays,
    directories_that_nobody_may_write_to_are_applied,
    what_is_mounted_in_a_project_is_left_alone,
}

/// A project that belongs to the world's user.
pub(crate) struct Project<'a> {
    world: &'a World,
    pub(crate) dir: PathBuf,
}

impl<'a> Project<'a> {
    /// With these files, by a script of the shell.
    pub(crate) fn new(world: &'a World, script: &str) -> Self {
        let dir = world.home().join("project");
        fs::create_dir(&dir).unwrap();
        world.own(&dir);
        let project = Self { world, dir };
        project.host(script);
        // The clock of files moves in ticks; what was made just now is not older than the cell.
        std::thread::sleep(Duration::from_millis(20));
        project
    }

    /// What a person does in it.
    pub(crate) fn host(&self, script: &str) -> String {
        self.shell(script).succeeded().stdout()
    }

    /// The same, however it ends; `$HOTCELL` is the program.
    pub(crate) fn shell(&self, script: &str) -> Finished {
        let dir = self.dir.to_str().unwrap();
        let whole = format!("cd '{dir}' && {script}");
        let shell = self.world.other("sh", ["-ec", &whole]).env("HOTCELL", program());
        shell.env("HOME", self.world.home()).run()
    }

    /// What runs in the cell that works on it.
    pub(crate) fn cell(&self, script: &str) -> String {
        self.world.text(["run", "--workspace", self.dir.to_str().unwrap(), script])
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.dir.join(path)).unwrap_or_else(|error| format!("{path}: {error}"))
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.dir.join(path).symlink_metadata().is_ok()
    }

    pub(crate) fn names(&self) -> String {
        self.host("\"$HOTCELL\" diff --name-status 2>/dev/null")
    }
}

fn real_files_change_when_their_owner_says_so(world: &World) {
    let project = Project::new(
        world,
        "echo one > a; echo gone > b; mkdir -p old/deep sub; echo o > old/deep/o; echo s > sub/s; \
         chmod 640 sub/s; ln -s a link",
    );
    let seen = project.cell(
        "id -u; cat a; echo two >> a; rm b; rm -r old; mkdir -p new/dir; echo n > new/dir/n; chmod 750 new; \
         echo t >> sub/s; ln -sfn sub link; chmod 600 a; ls",
    );
    assert_eq!(seen, "1000\none\na\nlink\nnew\nsub\n");
    assert_eq!(project.read("a"), "one\n");
    assert!(project.has("old/deep/o") && project.has("b") && !project.has("new"));

    let expected = "M a\nD b\nM link\nA new/\nA new/dir/\nA new/dir/n\nD old/\nD old/deep/\nD old/deep/o\nM sub/s\n";
    assert_eq!(project.names(), expected);
    // From below, of one path.
    assert_eq!(project.host("cd sub; \"$HOTCELL\" diff --name-status s"), "M sub/s\n");
    let patch = project.host("\"$HOTCELL\" diff");
    assert!(patch.contains("@@ -1 +1,2 @@\n one\n+two\n"), "{patch}");
    project.host("mkdir ../copy && cp -a . ../copy && cd ../copy && \"$HOTCELL\" diff --cell $(\"$HOTCELL\" cells --json | grep -o 'c_[a-z0-9]*' | head -1) > ../p && git apply ../p && cat a | grep two");

    let applied = project.host("\"$HOTCELL\" apply");
    assert_eq!(applied, expected);
    assert_eq!(project.read("a"), "one\ntwo\n");
    assert_eq!(project.read("new/dir/n"), "n\n");
    assert!(!project.has("old") && !project.has("b"));
    assert_eq!(fs::read_link(project.dir.join("link")).unwrap(), Path::new("sub"));
    for (path, mode) in [("a", 0o600), ("new", 0o750), ("sub/s", 0o640)] {
        let metadata = fs::metadata(project.dir.join(path)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, mode, "{path}");
        assert_eq!(metadata.uid(), world.user().uid, "{path}");
    }
    assert_eq!(project.names(), "");
    // What was applied has left the cell: it sees what the host makes of it.
    project.host("echo three >> a");
    assert_eq!(project.cell("cat a; echo four >> a"), "one\ntwo\nthree\n");
    assert!(
        !project
            .dir
            .read_dir()
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().as_bytes().starts_with(b".hotcell") })
    );
}

fn what_makes_the_host_run_something_is_applied_only_when_named(world: &World) {
    let project = Project::new(
        world,
        "git init -q .; echo x > script; mkdir nested; git init -q nested; echo e > f",
    );
    project.cell(
        "echo bad > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo '[core]' >> .git/config; \
         echo bad > .envrc; mkdir .vscode; echo {} > .vscode/tasks.json; chmod +x script; \
         echo bad > nested/.git/hooks/post-checkout; ln -s /etc/passwd out; echo good > f; \
         git init -q --bare innocent; printf '#!/bin/sh' > tool; chmod +x tool",
    );
    let applied = project.shell("\"$HOTCELL\" apply").succeeded();
    for path in [
        ".git/hooks/pre-commit",
        ".git/config",
        ".envrc",
        ".vscode/tasks.json",
        "nested/.git/hooks/post-checkout",
        "out",
        "innocent/config",
        "tool",
    ] {
        assert!(applied.stderr().contains(&format!("{path} was left out")), "{path}: {applied:?}");
        assert!(path == ".git/config" || !project.has(path), "{path}");
    }
    assert!(!project.read(".git/config").contains("[core]\n[core]"));
    assert_eq!(fs::metadata(project.dir.join("script")).unwrap().permissions().mode() & 0o111, 0);
    assert_eq!(project.read("f"), "good\n");
    // A directory above it names nothing.
    project.host("\"$HOTCELL\" apply .git nested");
    assert!(
        !project.has(".git/hooks/pre-commit") && !project.has("nested/.git/hooks/post-checkout")
    );
    project.host("\"$HOTCELL\" apply .git/hooks .envrc tool script");
    assert_eq!(project.read(".git/hooks/pre-commit"), "bad\n");
    assert!(project.has(".envrc") && project.has("tool") && !project.has("out"));
    assert_ne!(fs::metadata(project.dir.join("script")).unwrap().permissions().mode() & 0o111, 0);
}

fn changes_of_the_host_are_seen_at_the_next_command(world: &World) {
    let project =
        Project::new(world, "echo 0 > a; mkdir -p deep/er; echo 0 > deep/er/b; echo w > written");
    project.cell("echo mine > written; cat a deep/er/b; ls deep/er; cat deep/er/new 2>&1 || true");
    for round in 1..=20 {
        // As editors do it, and as `>` does; and files that come and go.
        project.host(&format!(
            "echo {round} > .a; mv .a a; echo {round} > deep/er/b; rm -f deep/er/new*; echo {round} > deep/er/new{round}; \
             mkdir -p at/{round}; echo {round} > at/{round}/f; echo host{round} > .w; mv .w written"
        ));
        let seen = project.cell(&format!("cat a deep/er/b at/{round}/f written; ls deep/er"));
        assert_eq!(seen, format!("{round}\n{round}\n{round}\nmine\nb\nnew{round}\n"));
    }
    // Files are served with the same eyes.
    let mut client = McpClient::start_with(
        world.hotcell(["serve", "--workspace", project.dir.to_str().unwrap()]),
        Era::Modern,
    );
    let cell = world.json(["cells", "--json"])["cells"][0]["id"].clone();
    let read = json!({ "cell": cell, "path": "a" });
    assert_eq!(client.call("fs_read", read.clone())["content"], "20\n");
    project.host("echo 21 > .a; mv .a a");
    assert_eq!(client.call("fs_read", read)["content"], "21\n");
    client.leave().0.succeeded();
    assert!(
        project
            .shell("\"$HOTCELL\" diff")
            .succeeded()
            .stderr()
            .contains("written changed on the host")
    );
}

fn changes_are_part_of_checkpoints_and_each_fork_has_its_own(world: &World) {
    let project = Project::new(world, "echo 0 > f; echo 0 > g");
    project.cell("echo 1 > f");
    let cell = world.json(["cells", "--json"])["cells"][0]["id"].as_str().unwrap().to_owned();
    let kept = world.json(["checkpoint", "create", &cell, "--json"]);
    project.cell("echo 2 > f; rm g; echo x > x");
    world.text(["fork", &cell, "--name", "other"]);
    world.text(["run", "--cell", "other", "cat f; ls; echo 3 > f"]);
    assert_eq!(project.names(), "M f\nD g\nA x\n");
    assert_eq!(project.host("\"$HOTCELL\" diff --cell other f | tail -1"), "+3\n");

    // The other one brings its own to the host; then the first one's has drifted.
    project.host("\"$HOTCELL\" apply --cell other f");
    assert_eq!(project.read("f"), "3\n");
    project.shell("\"$HOTCELL\" apply f").exited(4);

    world.text(["checkpoint", "restore", &cell, kept["id"].as_str().unwrap()]);
    assert_eq!(project.cell("cat f; ls"), "1\nf\ng\n");
    assert_eq!(project.names(), "M f\n");
    project.shell("\"$HOTCELL\" discard f").exited(4);
    project.host("\"$HOTCELL\" discard");
    assert_eq!(project.cell("cat f; ls"), "3\nf\ng\n");
    world.text(["checkpoint", "restore", &cell, kept["id"].as_str().unwrap()]);
    assert_eq!(project.cell("cat f"), "1\n");
    world.text(["kill", "--volumes", &cell]);
    assert_eq!(world.text(["run", "--cell", "other", "cat f; ls"]), "3\nf\nx\n");
}

fn what_is_discarded_is_as_the_host_has_it(world: &World) {
    let project = Project::new(world, "echo 0 > f; mkdir d; echo 0 > d/1; echo 0 > d/2");
    project.cell(
        "echo 1 > f; rm d/1; echo 1 > d/2; echo 1 > d/3; mkdir e; echo 1 > e/1; echo t > /tmp/t",
    );
    assert_eq!(project.host("\"$HOTCELL\" discard d"), "D d/1\nM d/2\nA d/3\n");
    assert_eq!(project.cell("cat f d/1 d/2; ls"), "1\n0\n0\nd\ne\nf\n");
    project.shell("\"$HOTCELL\" discard ../elsewhere").exited(2);
    project.host("\"$HOTCELL\" discard");
    assert_eq!(project.cell("cat f d/1; ls . d; cat /tmp/t"), "0\n0\n.:\nd\nf\n\nd:\n1\n2\nt\n");
    assert_eq!(project.names(), "");
    // A directory that was made anew hides the one of the host, until it goes as a whole.
    project.cell("rm -r d; mkdir d; echo new > d/1");
    project.shell("\"$HOTCELL\" discard d/1").exited(4);
    project.host("\"$HOTCELL\" discard d");
    assert_eq!(project.cell("cat d/1 d/2"), "0\n0\n");
    let exec = world.text([
        "run",
        "-d",
        "--workspace",
        project.dir.to_str().unwrap(),
        "echo 2 > f; sleep 1000",
    ]);
    eventually("it has written", || project.names() == "M f\n");
    project.shell("\"$HOTCELL\" discard").exited(4);
    world.text(["cancel", exec.trim()]);
}

fn git_make_npm_and_cargo_work_on_a_project(world: &World) {
    let project = Project::new(
        world,
        "git init -q .; git config user.name n; git config user.email e@example.org; mkdir src dep; \
         printf 'fn main() { println!(\"built {}\", 6 * 7); }\\n' > src/main.rs; \
         printf '[package]\\nname = \"thing\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' > Cargo.toml; \
         printf 'out: src/main.rs\\n\\tcp src/main.rs out\\n' > Makefile; \
         printf '{\"name\":\"dep\",\"version\":\"1.0.0\",\"main\":\"i.js\"}' > dep/package.json; \
         printf 'module.exports = 42' > dep/i.js; \
         printf '{\"name\":\"thing\",\"version\":\"1.0.0\",\"dependencies\":{\"dep\":\"file:dep\"}}' > package.json; \
         printf 'target\\nnode_modules\\nout\\n.toolchain\\n' > .gitignore; \
         git add .; git commit -qm first",
    );
    assert_eq!(project.cell("git status --short; git diff"), "");
    assert_eq!(project.names(), "", "looking changes nothing, also not the index");
    assert_eq!(
        project.cell("git status --short; echo more >> src/main.rs; git status --short"),
        " M src/main.rs\n"
    );
    // A file that only looks changed makes nobody write an index, which would hide the user's next.
    project.cell("git checkout -q src/main.rs");
    project.host("\"$HOTCELL\" discard");
    project.host("touch src/main.rs");
    assert_eq!(project.cell("git status --short"), "");
    assert_eq!(project.names(), "");
    project.host("echo >> Makefile; git commit -qam users");
    assert_eq!(project.cell("git status --short; git log -1 --format=%s"), "users\n");
    project.cell("echo more >> src/main.rs");
    project.cell("git checkout -q src/main.rs; git mv src/main.rs src/lib.rs; git mv src/lib.rs src/main.rs; git status --short");
    assert_eq!(project.cell("make -s; make -q && echo made"), "made\n");
    if link_toolchain(&project) {
        let built = project.cell(
            "export PATH=/workspace/.toolchain/bin:$PATH; cargo build -q --offline && cargo run -q --offline && touch src/main.rs && cargo run -q --offline",
        );
        assert_eq!(built, "built 42\nbuilt 42\n");
    }
    if Path::new("/usr/bin/npm").exists() {
        let installed = project.cell(
            "npm install --offline --no-audit --no-fund --silent && npm install --offline --no-audit --no-fund --silent && node -p 'require(\"dep\")'",
        );
        assert_eq!(installed, "42\n");
    } else {
        eprintln!("npm is not installed: not tried");
    }
    project.cell("echo '// one more' >> src/main.rs; git commit -qam second; git gc -q");
    project.host("\"$HOTCELL\" apply src .git");
    assert_eq!(
        project.host("git log --format=%s; git status --short; git fsck --no-progress"),
        "second\nusers\nfirst\n"
    );
}

/// Puts the compiler that builds this test into a project, without copying where that can be done.
fn link_toolchain(project: &Project<'_>) -> bool {
    let found = std::process::Command::new("rustc").args(["--print", "sysroot"]).output();
    let Ok(found) = found else { return false };
    let sysroot = PathBuf::from(String::from_utf8(found.stdout).unwrap().trim());
    let host = "lib/rustlib/x86_64-unknown-linux-gnu";
    let parts = [
        "bin",
        "lib",
        &format!("{host}/lib"),
        &format!("{host}/bin"),
        &format!("{host}/bin/gcc-ld"),
    ];
    for part in parts {
        let Ok(entries) = sysroot.join(part).read_dir() else { return false };
        let to = project.dir.join(".toolchain").join(part);
        fs::create_dir_all(&to).unwrap();
        for entry in entries.map(Result::unwrap) {
            let wanted =
                part != "bin" || ["cargo", "rustc"].iter().any(|name| entry.file_name() == *name);
            if wanted && entry.file_type().unwrap().is_file() {
                let to = to.join(entry.file_name());
                fs::hard_link(entry.path(), &to)
                    .or_else(|_| fs::copy(entry.path(), &to).map(drop))
                    .unwrap();
            }
        }
    }
    true
}

fn odd_names_and_kinds_of_files_are_kept(world: &World) {
    let project = Project::new(
        world,
        "printf '\\0\\1' > bin; : > empty; echo h > hard; ln hard hard2; mkdir dir2file file2dir.d; echo x > dir2file/x; echo f > file2dir",
    );
    project.cell(
        "printf '\\0\\2' > bin; printf nonl > 'sp ace'; printf n > \"$(printf 'new\\nline')\"; printf b > \"$(printf 'by\\377te')\"; \
         echo c >> hard; rm -r dir2file; echo now > dir2file; rm file2dir; mkdir file2dir; echo in > file2dir/in; \
         mkfifo pipe; mkdir -p 1/2/3/4/5/6/7/8/9; echo deep > 1/2/3/4/5/6/7/8/9/f; head -c 3000000 /dev/zero > large; echo gone > empty; \
         ln -s nowhere dangling; mkdir emptydir; chmod u+s hard",
    );
    project.host("\"$HOTCELL\" apply");
    let raw = |name: &[u8]| fs::read(project.dir.join(std::ffi::OsStr::from_bytes(name))).unwrap();
    assert_eq!(raw(b"bin"), b"\0\x02");
    assert_eq!(raw(b"sp ace"), b"nonl");
    assert_eq!(raw(b"new\nline"), b"n");
    assert_eq!(raw(b"by\xffte"), b"b");
    assert_eq!(raw(b"dir2file"), b"now\n");
    assert_eq!(raw(b"file2dir/in"), b"in\n");
    assert_eq!(raw(b"1/2/3/4/5/6/7/8/9/f"), b"deep\n");
    assert_eq!(raw(b"large").len(), 3_000_000);
    assert_eq!(raw(b"empty"), b"gone\n");
    assert!(project.has("dangling") && project.has("emptydir") && !project.has("pipe"));
    assert_eq!(fs::metadata(project.dir.join("hard")).unwrap().permissions().mode() & 0o7000, 0);
    assert_eq!(project.names(), "A pipe\n");
}

fn a_link_that_the_host_put_in_the_way_leads_nowhere(world: &World) {
    let project = Project::new(world, "mkdir sub; echo 0 > sub/f");
    let outside = world.home().join("outside");
    fs::create_dir(&outside).unwrap();
    world.own(&outside);
    fs::write(outside.join("f"), "untouched").unwrap();
    world.own(&outside.join("f"));
    project.cell("echo 1 > sub/f; echo 1 > sub/new");
    fs::remove_dir_all(project.dir.join("sub")).unwrap();
    symlink(&outside, project.dir.join("sub")).unwrap();
    project.shell("\"$HOTCELL\" apply").exited(4);
    project.shell("\"$HOTCELL\" apply --force");
    assert_eq!(fs::read_to_string(outside.join("f")).unwrap(), "untouched");
    assert!(!outside.join("new").exists());
}

fn a_cell_that_writes_through_cannot_touch_what_the_host_runs(world: &World) {
    let project = Project::new(
        world,
        "git init -q .; echo e > .envrc; mkdir .vscode; echo {} > .vscode/tasks.json; echo 0 > f",
    );
    let rw = format!("{}:rw", project.dir.display());
    let owner = fs::metadata(&project.dir).unwrap().uid();
    let before = project.read(".git/config");
    let attempts = "echo 1 > f; for a in 'echo x >> .git/config' 'echo x > .git/hooks/pre-commit' 'echo x > .envrc' \
                    'rm -r .vscode' 'mv .git .moved' 'mv .vscode .moved' 'rm -rf .git/hooks' 'mv .envrc other' \
                    'ln -f f .envrc' 'chmod 777 .git/hooks'; \
                    do sh -c \"$a\" 2>/dev/null && echo \"$a\"; done; true";
    assert_eq!(world.text(["run", "--workspace", &rw, attempts]), "");
    assert_eq!(project.read("f"), "1\n");
    assert_eq!(project.read(".git/config"), before);
    assert!(project.has(".envrc") && project.has(".vscode/tasks.json") && !project.has(".moved"));
    assert!(!project.has(".git/hooks/pre-commit"));
    // The rest of the repository can be written to: nothing else keeps it from being changed.
    world.text([
        "run",
        "--workspace",
        &rw,
        "git add f && git -c user.name=n -c user.email=e commit -qm c",
    ]);
    assert_eq!(fs::metadata(project.dir.join("f")).unwrap().uid(), owner);
    assert_eq!(project.host("git -c safe.directory='*' log --format=%s"), "c\n");
    world.text(["run", "--cell", "rw", "--workspace", &rw, "true"]);
    world.hotcell(["checkpoint", "create", "rw"]).run().exited(9);
    world.hotcell(["diff", "--cell", "rw"]).run().exited(2);

    let ro = format!("{}:ro", project.dir.display());
    let seen =
        world.text(["run", "--workspace", &ro, "cat f; touch f 2>/dev/null || echo refused"]);
    assert_eq!(seen, "1\nrefused\n");
}

fn an_agent_gets_only_what_its_operator_named(world: &World) {
    let project =
        Project::new(world, "mkdir sub; echo 0 > f; echo s > sub/s; ln -s .. up; ln -s / root");
    let outside = world.home().join("outside");
    fs::create_dir(&outside).unwrap();
    world.own(&outside);
    let dir = project.dir.to_str().unwrap();
    let mut client =
        McpClient::start_with(world.hotcell(["serve", "--workspace", dir]), Era::Modern);
    let ran = client.call("exec_run", json!({ "command": "cat f; echo 1 > f" }));
    assert_eq!(ran["stdout"], "0\n");
    assert_eq!(project.read("f"), "0\n");
    assert_eq!(project.names(), "M f\n");

    let spawn = |dir: String, mode: &str| json!({ "workspace": { "dir": dir, "mode": mode } });
    let made = client.call("cell_spawn", spawn(format!("{dir}/sub/.."), "ro"));
    assert_eq!(made["workspace"]["mode"], "ro");
    let seen =
        client.call("exec_run", json!({ "cell": made["id"], "command": "cat sub/s; ls .." }));
    assert!(seen["stdout"].as_str().unwrap().starts_with("s\n"), "{seen}");
    for (dir, mode) in [
        (outside.display().to_string(), "cow"),
        (outside.display().to_string(), "ro"),
        (format!("{dir}/../outside"), "cow"),
        (format!("{dir}/sub"), "cow"),
        (format!("{dir}/up/outside"), "cow"),
        (format!("{dir}/root/etc"), "ro"),
        (format!("{dir}evil"), "cow"),
        (dir.to_owned(), "rw"),
        ("/".to_owned(), "ro"),
        (world.home().display().to_string(), "ro"),
    ] {
        let id = client.ask_tool("cell_spawn", spawn(dir.clone(), mode));
        let refused = client.answer(id);
        assert_eq!(refused["result"]["isError"], true, "{dir} {mode}: {refused}");
    }
    client.leave().0.succeeded();
    // Without a word of the operator there is none.
    let mut client = McpClient::start(world, Era::Modern);
    let id = client.ask_tool("cell_spawn", spawn(dir.to_owned(), "ro"));
    assert_eq!(client.answer(id)["result"]["isError"], true);
    // Nor through a cell that somebody else made on it.
    let id = client.ask_tool("exec_run", json!({ "cell": made["id"], "command": "cat f" }));
    assert_eq!(client.answer(id)["result"]["isError"], true);
    let id = client.ask_tool("fs_read", json!({ "cell": made["id"], "path": "f" }));
    assert_eq!(client.answer(id)["result"]["isError"], true);
    client.leave().0.succeeded();
    world.hotcell(["serve", "--workspace", "/"]).run().exited(5);
    // And no tool applies anything.
    assert_eq!(project.read("f"), "0\n");
}

fn a_killed_apply_leaves_all_or_nothing(world: &World) {
    const FILES: usize = 60;
    let project =
        Project::new(world, "mkdir d; for i in $(seq 60); do echo 0 > d/$i; done; echo 0 > r");
    let mut chance = Chance::new();
    project.cell("true");
    let cell = world.json(["cells", "--json"])["cells"][0]["id"].as_str().unwrap().to_owned();
    let mut last = "0".to_owned();
    let (mut whole, mut undone) = (0, 0);
    for round in 1..=30 {
        let now = round.to_string();
        project.cell(&format!("for i in $(seq {FILES}); do echo {now} > d/$i; done; rm -f r; mkdir -p new{now}/deep/er; echo {now} > new{now}/deep/er/f"));
        let apply = world.hotcell(["apply", "--cell", &cell]).start();
        let keeper = world.keeper(&cell);
        let supervisor = world.supervisor(&cell);
        std::thread::sleep(Duration::from_micros(chance.below(60_000)));
        for pid in
            marked(&cell).into_iter().filter(|pid| ![keeper, supervisor, apply.pid()].contains(pid))
        {
            kill_9(pid);
        }
        apply.finish();
        // Whoever looks next ends what was begun.
        project.names();
        let values: std::collections::BTreeSet<String> = (1..=FILES)
            .map(|number| project.read(&format!("d/{number}")).trim().to_owned())
            .collect();
        assert_eq!(values.len(), 1, "round {round}, seed {}: {values:?}", chance.state());
        let is_new = values.contains(&now);
        assert!(is_new || values.contains(&last), "round {round}: {values:?}");
        assert_eq!(project.has(&format!("new{now}/deep/er/f")), is_new, "round {round}");
        let left = project.host("ls -A | grep hotcell || true");
        assert_eq!(left, "", "round {round}");
        // What was not applied the cell still has.
        assert_eq!(project.cell("cat d/1"), format!("{now}\n"));
        if is_new {
            whole += 1;
            last = now;
        } else {
            undone += 1;
        }
    }
    eprintln!("{whole} were applied, {undone} were not");
    // Nothing of it was somebody else's doing.
    project.host("\"$HOTCELL\" apply");
    assert_eq!(project.read("d/1"), "30\n");
}

fn changes_can_be_applied_while_something_runs(world: &World) {
    let project = Project::new(world, "echo 0 > f; echo 0 > g");
    let dir = project.dir.to_str().unwrap();
    let exec = world.text([
        "run",
        "-d",
        "--workspace",
        dir,
        "exec 3>>g; echo 1 > f; while :; do echo x >&3; sleep 0.02; done",
    ]);
    eventually("it has written", || project.names() == "M f\nM g\n");
    assert_eq!(project.host("\"$HOTCELL\" apply f"), "M f\n");
    assert_eq!(project.read("f"), "1\n");
    assert_eq!(project.read("g"), "0\n");
    // It went on: what it has open is still the file that it writes to.
    let lines = || project.cell("wc -l < g").trim().parse::<u64>().unwrap();
    let before = lines();
    eventually("it goes on", || lines() > before);
    world.text(["cancel", exec.trim()]);
    project.host("\"$HOTCELL\" apply");
    assert!(project.read("g").lines().count() as u64 >= before);
    assert_eq!(project.names(), "");
    // Now that nothing runs, what was applied before has left the cell, too.
    project.host("echo 2 > f");
    assert_eq!(project.cell("cat f; echo 3 >> f"), "2\n");
    assert_eq!(project.host("\"$HOTCELL\" apply"), "M f\n");
}

fn a_project_that_was_moved_away_is_not_taken_for_another(world: &World) {
    let project = Project::new(world, "mkdir sub; echo 0 > sub/f");
    let outside = world.home().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f"), "secret").unwrap();
    let sub = project.dir.join("sub");
    let run = ["run", "--workspace", sub.to_str().unwrap(), "--cell", "sub", "cat f"];
    assert_eq!(world.text(run), "0\n");
    kill_9(world.supervisor("sub"));
    fs::rename(&sub, project.dir.join("moved")).unwrap();
    let gone = world.hotcell(["run", "--cell", "sub", "cat f"]).run().exited(125);
    assert!(gone.stderr().contains("is not there"), "{gone:?}");
    symlink(&outside, &sub).unwrap();
    let refused = world.hotcell(["run", "--cell", "sub", "cat f"]).run().exited(125);
    assert!(!refused.stdout().contains("secret"), "{refused:?}");
    world.hotcell(["diff", "--cell", "sub"]).run().exited(10);
    fs::remove_file(&sub).unwrap();
    fs::rename(project.dir.join("moved"), &sub).unwrap();
    assert_eq!(world.text(["run", "--cell", "sub", "cat f"]), "0\n");
}

fn a_cell_that_has_another_workspace_is_not_taken_for_the_one_that_was_asked_for(world: &World) {
    let project = Project::new(world, "echo 0 > f");
    let dir = project.dir.to_str().unwrap();
    world.text(["run", "--cell", "plain", "true"]);
    let refused = world.hotcell(["run", "--cell", "plain", "--workspace", dir, "true"]).run();
    assert!(refused.exited(125).stderr().contains("has a workspace of its own"));
    let mut client = McpClient::start_with(
        world.hotcell(["serve", "--workspace", dir, "--cell", "plain"]),
        Era::Modern,
    );
    let id = client.ask_tool("exec_run", json!({ "command": "cat f" }));
    assert_eq!(client.answer(id)["result"]["isError"], true);
    client.leave().0.succeeded();
    project.cell("true");
    let ro = format!("{dir}:ro");
    let name = world.json(["cells", "--json"])["cells"][0]["alias"].as_str().unwrap().to_owned();
    world.hotcell(["run", "--cell", &name, "--workspace", &ro, "true"]).run().exited(125);
}

/// Everything that can be seen of a tree.
const LOOK: &str =
    "find . -mindepth 1 -printf '%P %y %m %l\\n' | sort; find . -type f | sort | xargs -r cat";

fn whatever_a_cell_does_arrives(world: &World) {
    let project = Project::new(
        world,
        "mkdir -p a/b c; echo 0 > a/0; echo 0 > a/b/1; echo 0 > c/2; ln -s 0 a/l",
    );
    let mut chance = Chance::new();
    for round in 0..12 {
        let script: Vec<String> = (0..25).map(|_| step(&mut chance)).collect();
        let seed = chance.state();
        project.cell(&format!("exec 2>/dev/null; {}; true", script.join("; ")));
        let wanted = project.cell(LOOK);
        // The host goes its own ways in between, in files of its own.
        project.host(&format!("mkdir -p host; echo {round} > host/{round}"));
        if chance.below(3) == 0 {
            let cell =
                world.json(["cells", "--json"])["cells"][0]["id"].as_str().unwrap().to_owned();
            world.text(["checkpoint", "create", &cell]);
        }
        project.host("\"$HOTCELL\" apply --force");
        project.host("mkdir -p ../kept; mv host ../kept");
        assert_eq!(project.host(LOOK), wanted, "round {round}, seed {seed}: {script:?}");
        assert_eq!(project.cell(LOOK), wanted, "round {round}, seed {seed}: {script:?}");
        assert_eq!(project.names(), "", "round {round}, seed {seed}: {script:?}");
        project.host("mv ../kept/host .; rm -r host");
    }
}

/// Something that a shell does to a few paths, which may fail.
fn step(chance: &mut Chance) -> String {
    let mut path = || {
        let top = *chance.among(&["a", "c", "d", "."]);
        let below = *chance.among(&["", "/0", "/1", "/2", "/b", "/b/1", "/l", "/n/m"]);
        format!("{top}{below}")
    };
    let (one, other) = (path(), path());
    match chance.below(9) {
        0 => format!("echo $$ >> {one}"),
        1 => format!("rm -rf {one}/. {one}; echo $RANDOM > {one}"),
        2 => format!("[ {one} = . ] || rm -rf {one}"),
        3 => format!("mkdir -p {one}"),
        4 => format!("mv {one} {other}"),
        5 => format!("ln -sfn 0 {one}"),
        6 => format!("[ -d {one} ] && chmod 75$((RANDOM % 2 * 5)) {one}"),
        7 => format!("[ -f {one} ] && chmod 6$((RANDOM % 2 * 4))0 {one}"),
        _ => format!("cp -r {one} {other}"),
    }
}

fn links_of_a_cell_lead_a_discard_nowhere(world: &World) {
    let project = Project::new(world, "mkdir -p src/deep; echo 0 > src/f; echo 0 > src/deep/f");
    let outside = world.home().join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    for path in ["f", "deep/f"] {
        fs::write(outside.join(path), "untouched").unwrap();
    }
    for path in [&outside, &outside.join("deep"), &outside.join("f"), &outside.join("deep/f")] {
        world.own(path);
    }
    project.cell(&format!("rm -r src; ln -s {} src", outside.display()));
    for path in ["src/f", "src/deep", "src/deep/f"] {
        let refused = project.shell(&format!("\"$HOTCELL\" discard {path}")).exited(4);
        assert!(refused.stderr().contains("discard src as a whole"), "{refused:?}");
    }
    assert_eq!(fs::read_to_string(outside.join("f")).unwrap(), "untouched");
    assert_eq!(fs::read_to_string(outside.join("deep/f")).unwrap(), "untouched");
    project.host("\"$HOTCELL\" discard src");
    assert_eq!(project.cell("cat src/f"), "0\n");
}

fn nothing_that_looks_like_a_repository_gets_by(world: &World) {
    let project = Project::new(
        world,
        "git init -q .; git -c user.name=n -c user.email=e commit -q --allow-empty -m x",
    );
    let evil =
        "printf '[core]\\n\\tfsmonitor = touch ran; false\\n\\tbare = false\\n\\tworktree = .\\n'";
    project.cell(&format!(
        "mkdir -p data t; cp -r .git/objects .git/refs data; {evil} > data/config; echo ../data > .git/commondir; \
         {evil} > t/config"
    ));
    project.host("\"$HOTCELL\" apply");
    assert!(!project.has(".git/commondir"));
    project.cell("cp -r .git/HEAD .git/objects .git/refs t");
    project.host("\"$HOTCELL\" apply");
    assert!(!project.has("t/HEAD") && project.has("t/refs"));
    project.shell("git status; git -C t status; git -C data status");
    assert!(!project.has("ran") && !project.has("t/ran") && !project.has("data/ran"));
    // The control: what was held back would have run.
    project.host("\"$HOTCELL\" apply .git/commondir");
    project.shell("git status");
    assert!(project.has("ran"), "git ran nothing: what is guarded here is no danger");
    // What makes nobody run anything goes without being named.
    project.cell("rm -rf .git");
    project.host("rm -rf ran; \"$HOTCELL\" apply --force");
    assert!(!project.has(".git"));
}

fn whoever_looks_does_not_disturb_an_apply(world: &World) {
    const FILES: usize = 400;
    let project =
        Project::new(world, &format!("mkdir d; for i in $(seq {FILES}); do echo 0 > d/$i; done"));
    for round in 1..=3 {
        project.cell(&format!(
            "for i in $(seq 300); do echo {round} > d/$i; done; rm -f d/3[0-9][1-9]"
        ));
        let cell = world.json(["cells", "--json"])["cells"][0]["id"].as_str().unwrap().to_owned();
        let apply = world.hotcell(["apply", "--cell", &cell]).start();
        let looks: Vec<_> =
            (0..4).map(|_| world.hotcell(["diff", "--cell", &cell]).start()).collect();
        apply.finish().succeeded();
        for look in looks {
            look.finish().succeeded();
        }
        assert_eq!(project.names(), "");
        for number in 1..=300 {
            assert_eq!(project.read(&format!("d/{number}")), format!("{round}\n"));
        }
        assert!(!project.has("d/301") && project.has("d/400"));
    }
}

fn a_removed_directory_that_the_host_put_something_into_stays(world: &World) {
    let project =
        Project::new(world, "mkdir -p d old/stuff; echo 0 > d/f; echo precious > old/stuff/p");
    project.cell("rm -r d");
    project.host("mv old/stuff d");
    project.shell("\"$HOTCELL\" apply").exited(4);
    assert_eq!(project.read("d/stuff/p"), "precious\n");
}

fn directories_that_nobody_may_write_to_are_applied(world: &World) {
    let project = Project::new(world, "echo 0 > f");
    project.cell("mkdir -p ro/deep; echo 1 > ro/deep/f; chmod 555 ro/deep ro; echo 1 > secret; chmod 0 secret");
    project.host("\"$HOTCELL\" apply");
    assert_eq!(project.read("ro/deep/f"), "1\n");
    assert_eq!(project.names(), "");
    project.host("chmod -R u+w ro");
}

fn what_is_mounted_in_a_project_is_left_alone(world: &World) {
    if world.kind() != Kind::Root {
        return;
    }
    let project = Project::new(world, "mkdir -p mnt; echo below > mnt/f; echo 0 > f");
    project.cell("echo 1 > mnt/g; echo 1 > f");
    project.host("mount -t tmpfs tmpfs mnt; echo mounted > mnt/f");
    let look = project.shell("\"$HOTCELL\" diff --name-status");
    let applied = project.shell("\"$HOTCELL\" apply");
    let seen = project.cell("cat mnt/f");
    let kept = project.read("mnt/f");
    project.host("umount mnt");
    assert_eq!(look.succeeded().stdout(), "M f\nA mnt/g\n");
    applied.succeeded();
    assert_eq!((kept.as_str(), seen.as_str()), ("mounted\n", "below\n"));
    assert_eq!(project.read("f"), "1\n");
}
