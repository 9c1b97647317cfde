//! The files of cells at the command line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use crate::world::{Finished, World, eventually, send};

in_worlds! { [root, rootless, single_id, docker, remote]
    files_go_in_and_out,
    directories_go_in_and_out,
}

in_worlds! {
    [root, rootless, single_id]
    what_is_interrupted_leaves_nothing,
}

in_worlds! {
    [root]
    a_dash_is_our_input_or_output,
    files_go_from_cell_to_cell,
    directories_are_listed,
    files_are_printed,
    text_is_replaced,
    a_file_is_opened_in_an_editor,
    an_editor_never_goes_over_a_change,
    text_is_found,
    what_cannot_be_copied_is_said,
}

/// A file of the world's user with this content.
fn local(world: &World, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = world.home().join(name);
    fs::write(&path, content).unwrap();
    world.own(&path);
    path
}

fn script(world: &World, name: &str, text: &str) -> String {
    let path = local(world, name, format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

const BINARY: &[u8] = &[0, 159, 146, 150, 255, 10, 0];

fn files_go_in_and_out(world: &World) {
    world.text(["run", "--cell", "work", "mkdir d"]);
    let tool = local(world, "tool.bin", BINARY);
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o750)).unwrap();
    let tool = tool.to_str().unwrap();
    world.text(["cp", tool, "work:copy"]);
    world.text(["cp", tool, "work:d"]);
    world.text(["cp", tool, "work:fresh/"]);
    let seen = world.text(["run", "--cell", "work", "stat -c '%a %s %n' copy d/* fresh/*"]);
    assert_eq!(seen, "750 7 copy\n750 7 d/tool.bin\n750 7 fresh/tool.bin\n");

    let out = world.home().join("out");
    fs::create_dir(&out).unwrap();
    world.own(&out);
    let shown = world.text(["cp", "--json", "work:copy", out.to_str().unwrap()]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["files"], &shown["bytes"]), (&1.into(), &7.into()));
    assert_eq!(fs::read(out.join("copy")).unwrap(), BINARY);
    let mode = fs::metadata(out.join("copy")).unwrap().permissions().mode();
    assert_eq!(mode & 0o700, 0o700);
    // Again, under another name, over what is there.
    local(world, "old", "old");
    world.text(["cp", "work:copy", world.home().join("old").to_str().unwrap()]);
    assert_eq!(fs::read(world.home().join("old")).unwrap(), BINARY);
    let left: Vec<_> = fs::read_dir(&out).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(left, ["copy"]);
}

fn directories_go_in_and_out(world: &World) {
    world.text(["run", "--cell", "work", "true"]);
    let project = world.home().join("project");
    for directory in [project.clone(), project.join("src"), project.join("empty")] {
        fs::create_dir(&directory).unwrap();
        world.own(&directory);
    }
    local(world, "project/src/a.txt", "one");
    local(world, "project/b.bin", BINARY);
    std::os::unix::fs::symlink("src/a.txt", project.join("link")).unwrap();
    let from = project.to_str().unwrap();
    world.text(["cp", "-r", from, "work:"]);
    let seen = world.text([
        "run",
        "--cell",
        "work",
        "cd project; cat link; cmp b.bin - <b.bin; find . | sort",
    ]);
    assert_eq!(seen, "one.\n./b.bin\n./empty\n./link\n./src\n./src/a.txt\n");
    // What has no name of its own goes by its content.
    world.text(["cp", &format!("{from}/."), "work:other"]);
    assert_eq!(world.text(["ls", "work:other"]), "b.bin\nempty/\nlink\nsrc/\n");

    let back = world.home().join("back");
    world.text(["cp", "work:project", back.to_str().unwrap()]);
    assert_eq!(fs::read(back.join("b.bin")).unwrap(), BINARY);
    assert_eq!(fs::read_to_string(back.join("link")).unwrap(), "one");
    assert!(back.join("empty").is_dir());
    // A second time it goes into what is there.
    world.text(["cp", "work:project", back.to_str().unwrap()]);
    assert!(back.join("project/src/a.txt").is_file());
    let archive = world.hotcell(["cp", "work:project", "-"]).run().succeeded();
    assert!(archive.stdout.len() >= 1024 && archive.stdout.len().is_multiple_of(512));
    // Nothing of the way is left.
    let hidden = fs::read_dir(world.home()).unwrap();
    let hidden = hidden
        .filter(|one| one.as_ref().unwrap().file_name().to_string_lossy().contains(".hotcell-"));
    assert_eq!(hidden.count(), 0);
}

fn what_is_interrupted_leaves_nothing(world: &World) {
    world.text(["run", "--cell", "work", "true"]);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::KILL, -9)] {
        let mut live = world.hotcell(["cp", "-", "work:half"]).start_with_input();
        // More than a pipe and every buffer on the way hold: it is under way.
        live.write(&vec![b'x'; 8 << 20]);
        send(live.pid(), signal);
        let finished = live.finish_unfed();
        if code > 0 {
            assert_eq!(finished.code(), code, "{finished:?}");
        }
        eventually("nothing is left of what was not finished", || {
            world.text(["run", "--cell", "work", "ls -A"]).is_empty()
        });
    }
}

fn a_dash_is_our_input_or_output(world: &World) {
    world.text(["run", "--cell", "work", "true"]);
    let text = "one\ntwo\n".repeat(100_000);
    world.hotcell(["cp", "-", "work:in"]).input(text.as_str()).run().succeeded();
    assert!(world.hotcell(["cp", "work:in", "-"]).run().succeeded().stdout() == text);
    world.hotcell(["cp", "-", "work:empty"]).input("").run().succeeded();
    assert_eq!(world.text(["cat", "work:empty"]), "");
    // The cell of this directory; nothing is made to be looked at.
    world.hotcell(["ls"]).run().exited(3);
    world.hotcell(["cat", ":here"]).run().exited(3);
    world.hotcell(["cp", "-", ":here"]).input("x").run().succeeded();
    assert_eq!(world.text(["run", "--cell", "default", "cat here"]), "x");
    assert_eq!(world.text(["cat", "default:here"]), "x");
}

fn files_go_from_cell_to_cell(world: &World) {
    world.text([
        "run",
        "--cell",
        "one",
        "head -c 3000000 /dev/urandom > a; chmod 700 a; sha256sum < a",
    ]);
    world.text(["run", "--cell", "two", "mkdir d"]);
    world.text(["cp", "one:a", "two:d"]);
    let sum = "stat -c %a a; sha256sum < a";
    let one = world.text(["run", "--cell", "one", sum]);
    assert_eq!(world.text(["run", "--cell", "two", "--cwd", "d", sum]), one);
    world.hotcell(["cp", "one:absent", "two:x"]).run().exited(3);
}

fn directories_are_listed(world: &World) {
    let make = "mkdir -p a/b; echo hi > a/f; chmod 640 a/f; ln -s f a/l; touch 'a b' $'x\\ny'";
    world.text(["run", "--cell", "work", make]);
    assert_eq!(world.text(["ls", "work"]), "a/\na b\nx\\ny\n");
    assert_eq!(world.text(["ls", "work:a"]), "b/\nf\nl\n");
    assert_eq!(world.text(["ls", "-R", "work:", "--glob", "a/**"]), "a/b/\na/f\na/l\n");
    assert_eq!(world.text(["ls", "work:a/f"]), "f\n");
    let long = world.text(["ls", "-l", "work:/workspace/a"]);
    let lines: Vec<&str> = long.lines().collect();
    assert!(lines[0].starts_with("drwx") && lines[0].ends_with(" b/"), "{long}");
    assert!(lines[1].starts_with("-rw-r-----") && lines[1].contains(" 3 "), "{long}");
    assert!(lines[2].starts_with('l') && lines[2].ends_with(" l -> f"), "{long}");
    let shown: Value = serde_json::from_str(&world.text(["ls", "--json", "work:a"])).unwrap();
    assert_eq!(shown["entries"][1]["path"], "/workspace/a/f");
    assert_eq!(shown["entries"][1]["mode"], "640");
    let absent = world.hotcell(["ls", "work:absent"]).run().exited(3);
    assert!(absent.stderr().contains("/workspace/absent"), "{absent:?}");
    world.hotcell(["ls", "nobody"]).run().exited(3);
    world.hotcell(["ls", "a/b"]).run().exited(2);
}

fn files_are_printed(world: &World) {
    world.text(["run", "--cell", "work", "seq 5 > a; printf '\\0\\377' > b"]);
    assert_eq!(world.text(["cat", "work:a", "work:a"]), "1\n2\n3\n4\n5\n".repeat(2));
    assert_eq!(world.text(["cat", "--lines", "2-3", "work:a"]), "2\n3\n");
    assert_eq!(world.hotcell(["cat", "work:b"]).run().succeeded().stdout, [0, 255]);
    let shown: Value = serde_json::from_str(&world.text(["cat", "--json", "work:b"])).unwrap();
    assert_eq!((&shown["content"], &shown["encoding"]), (&"AP8=".into(), &"base64".into()));
    world.hotcell(["cat", "work:."]).run().exited(4);
    world.hotcell(["cat", "work:absent"]).run().exited(3);
    let wrong = world.hotcell(["cat", "a"]).run().exited(2);
    assert!(wrong.stderr().contains("CELL:PATH"), "{wrong:?}");
}

fn text_is_replaced(world: &World) {
    world.text(["run", "--cell", "work", "printf 'a\\nb\\na\\n' > f"]);
    let edit = |args: &[&str]| world.hotcell(["edit", "work:f"]).args(args.iter().copied()).run();
    let twice = edit(&["--old", "a", "--new", "c"]).exited(4);
    assert!(twice.stderr().contains("--all"), "{twice:?}");
    let shown = edit(&["--old", "a", "--new", "c", "--all", "--dry-run"]).succeeded().stdout();
    assert!(shown.contains("-a\n+c\n"), "{shown}");
    assert_eq!(world.text(["cat", "work:f"]), "a\nb\na\n");
    edit(&["--old", "b", "--new", "-b"]).succeeded();
    let json = edit(&["--old", "a", "--new", "c", "--all", "--json"]).succeeded().stdout();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["replaced"], 2);
    assert_eq!(world.text(["cat", "work:f"]), "c\n-b\nc\n");
    edit(&["--old", "absent", "--new", "x"]).exited(3);
    edit(&["--old", "a"]).exited(2);
}

fn a_file_is_opened_in_an_editor(world: &World) {
    world.text(["run", "--cell", "work", "echo before > notes.md; chmod 640 notes.md"]);
    let editor = script(
        world,
        "editor",
        "case $2 in *.md) sed -i \"s/before/$1/\" \"$2\";; *) echo made > \"$2\";; esac",
    );
    let edit =
        |file: &str| world.hotcell(["edit", file]).env("EDITOR", format!("{editor} after")).run();
    edit("work:notes.md").succeeded();
    assert_eq!(
        world.text(["run", "--cell", "work", "cat notes.md; stat -c %a notes.md"]),
        "after\n640\n"
    );
    let same = edit("work:notes.md").succeeded();
    assert!(same.stderr().contains("nothing was changed"), "{same:?}");
    edit("work:d/fresh").succeeded();
    assert_eq!(world.text(["cat", "work:d/fresh"]), "made\n");
}

/// Where a hint says that a text was kept.
#[track_caller]
fn kept(finished: &Finished) -> String {
    let said = finished.stderr();
    let (_, after) = said.split_once("your text is in ").unwrap();
    let path = after.split([';', '\n']).next().unwrap().to_owned();
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    text
}

fn an_editor_never_goes_over_a_change(world: &World) {
    world.text(["run", "--cell", "work", "echo before > f"]);
    let program = crate::world::program();
    let change = format!("{} run --cell work 'echo theirs > f'", program.display());
    let editor = script(world, "slow-editor", &format!("{change}\necho mine > \"$1\""));
    let conflict = world.hotcell(["edit", "work:f"]).env("VISUAL", &editor).run().exited(4);
    assert_eq!(kept(&conflict), "mine\n");
    assert_eq!(world.text(["cat", "work:f"]), "theirs\n");
    let failing = script(world, "failing-editor", "echo draft > \"$1\"; exit 3");
    let failed = world.hotcell(["edit", "work:f"]).env("VISUAL", &failing).run().exited(8);
    assert_eq!(kept(&failed), "draft\n");
    let nothing = world.hotcell(["edit", "work:f"]).env("EDITOR", "false").run().exited(8);
    assert!(!nothing.stderr().contains("your text"), "{nothing:?}");
    assert_eq!(world.text(["cat", "work:f"]), "theirs\n");
}

fn text_is_found(world: &World) {
    world.text([
        "run",
        "--cell",
        "work",
        "mkdir d; printf 'one\\ntwo\\nthree\\n' > d/f; echo TWO > g",
    ]);
    let found = world.text(["search", "-i", "two", "work"]);
    let mut lines: Vec<_> = found.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["d/f:2:two", "g:1:TWO"]);
    let all = world.json(["search", "-i", "two", "work", "--json"]);
    assert_eq!(all["matches"][1]["path"], "/workspace/g", "{all}");
    // More than goes through at once, and no match of it twice.
    world.text(["run", "--cell", "work", "mkdir e; seq 200000 > e/many"]);
    let some = world.hotcell(["search", "--limit", "10000", "1", "work:e"]).run().succeeded();
    let lines: std::collections::BTreeSet<_> = some.stdout().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 10_000);
    assert!(some.stderr().contains("more than 10000 matches"), "{}", some.stderr());
    assert_eq!(
        world.text(["search", "-C", "1", "two", "work:d"]),
        "d/f-1-one\nd/f:2:two\nd/f-3-three\n"
    );
    world.hotcell(["search", "absent", "work"]).run().exited(1);
    let wrong = world.hotcell(["search", "(", "work"]).run().exited(2);
    assert!(wrong.stderr().contains("--literal"), "{wrong:?}");
    assert_eq!(wrong.stderr().lines().count(), 2, "{wrong:?}");
}

fn what_cannot_be_copied_is_said(world: &World) {
    world.text(["run", "--cell", "work", "mkdir d"]);
    let file = local(world, "file", "x");
    let file = file.to_str().unwrap();
    for (from, to, code, said) in [
        (file, "other", 2, "CELL:PATH"),
        ("-", "-", 2, "CELL:PATH"),
        ("absent", "work:x", 3, "absent"),
        ("work:absent", "x", 3, "hotcell ls"),
        ("nobody:x", "x", 3, "nobody"),
        (file, "nobody:x", 3, "nobody"),
        ("work:d/../d", "/dev/null", 4, "/dev/null"),
        (file, "work:/proc/x", 5, "/proc/x"),
        ("-", "work:d", 4, "/workspace/d"),
    ] {
        let finished = world.hotcell(["cp", from, to]).input("").run();
        assert_eq!(finished.code(), code, "{from} {to}: {finished:?}");
        assert!(finished.stderr().contains(said), "{from} {to}: {finished:?}");
    }
}
