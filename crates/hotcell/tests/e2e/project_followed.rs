//! Files that were applied and stay in the layers of their cell, because something runs there or a
//! checkpoint holds them: the cell still sees what the user makes of them.

use crate::projects::Project;
use crate::world::World;

in_every_world! {
    what_the_user_makes_of_applied_files_is_seen_while_something_runs,
    what_the_user_makes_of_applied_files_is_seen_after_a_checkpoint,
}

in_worlds! { [root, rootless]
    what_the_cell_changed_too_stays_and_is_a_conflict,
    a_restored_checkpoint_is_in_conflict_with_what_the_user_made_since,
    what_left_the_cell_is_followed_no_more,
    what_cannot_be_given_to_the_cell_waits,
    commits_of_the_user_are_seen_unless_the_cell_made_others,
}

fn only_cell(world: &World) -> String {
    world.json(["cells", "--json"])["cells"][0]["id"].as_str().unwrap().to_owned()
}

fn keep_running(world: &World, project: &Project<'_>) -> String {
    let dir = project.dir.to_str().unwrap();
    world.text(["run", "-d", "--workspace", dir, "sleep 1000"]).trim().to_owned()
}

/// Changes of the user to every kind of change that the cell made.
fn the_user_goes_on(project: &Project<'_>) {
    project.host("echo user >> a; sed -i s/b/user/ b; rm new; chmod 600 mode; rm -r made");
    project.host("mkdir -p gone; echo back > gone/c; ln -sfn b link; rm dir/d; ln -s a dir/d");
    let seen = "cat a b; ls new made 2>/dev/null; stat -c %a mode; cat gone/c; readlink link dir/d";
    assert_eq!(project.cell(seen), "a\ncell\nuser\nuser\ncell\n600\nback\nb\na\n");
    assert_eq!(project.host("\"$HOTCELL\" diff --name-status"), "");
    // The cell goes on from there, and that is no conflict.
    project.cell("echo more >> a; echo more >> b; echo again > new; rm gone/c; echo d > dir/e");
    let expected = "M a\nM b\nA dir/e\nD gone/c\nA new\n";
    assert_eq!(project.host("\"$HOTCELL\" apply"), expected);
    assert_eq!(project.read("a") + &project.read("b"), "a\ncell\nuser\nmore\nuser\ncell\nmore\n");
    // Once more.
    project.host("echo last > a");
    assert_eq!(project.cell("cat a"), "last\n");
    assert_eq!(project.host("\"$HOTCELL\" diff --name-status"), "");
    // Nothing else came to the cell or to the project.
    assert_eq!(project.cell("ls -A | tr '\\n' ' '"), "a b dir gone link mode new ");
    assert_eq!(project.names(), "");
}

const FILES: &str = "mkdir dir gone; for f in a b mode gone/c dir/d; do echo ${f##*/} > $f; done; \
    ln -s a link";
const CHANGES: &str = "echo cell >> a; echo cell >> b; echo n > new; chmod 755 mode; rm -r gone; \
    ln -sfn mode link; echo cell >> dir/d; mkdir -p made/deep; echo m > made/deep/m";

fn what_the_user_makes_of_applied_files_is_seen_while_something_runs(world: &World) {
    let project = Project::new(world, FILES);
    let exec = keep_running(world, &project);
    project.cell(CHANGES);
    project.host("\"$HOTCELL\" apply; \"$HOTCELL\" apply mode");
    the_user_goes_on(&project);
    world.text(["cancel", &exec]);
}

fn what_the_user_makes_of_applied_files_is_seen_after_a_checkpoint(world: &World) {
    let project = Project::new(world, FILES);
    project.cell(CHANGES);
    world.text(["checkpoint", "create", &only_cell(world)]);
    project.host("\"$HOTCELL\" apply; \"$HOTCELL\" apply mode");
    the_user_goes_on(&project);
}

fn what_the_cell_changed_too_stays_and_is_a_conflict(world: &World) {
    let project = Project::new(world, "for f in a b c; do echo $f > $f; done");
    let exec = keep_running(world, &project);
    project.cell("echo cell >> a; echo cell >> b; rm c");
    project.host("\"$HOTCELL\" apply");
    project.cell("echo more >> a; echo own > c");
    project.host("echo user >> a; echo user >> b; echo user > c");
    assert_eq!(project.cell("cat a b c"), "a\ncell\nmore\nb\ncell\nuser\nown\n");
    let diff = project.shell("\"$HOTCELL\" diff --name-status").succeeded();
    assert_eq!(diff.stdout(), "M a\nM c\n");
    for path in ["a", "c"] {
        assert!(diff.stderr().contains(&format!("{path} changed on the host")), "{diff:?}");
    }
    project.shell("\"$HOTCELL\" apply").exited(4);
    assert_eq!(project.read("a") + &project.read("c"), "a\ncell\nuser\nuser\n");
    // Also if the cell has what was applied again: its next version is not made from the user's.
    project.cell("sed -i /more/d a; true");
    project.shell("\"$HOTCELL\" apply a").exited(4);
    world.text(["cancel", &exec]);
}

fn a_restored_checkpoint_is_in_conflict_with_what_the_user_made_since(world: &World) {
    let project = Project::new(world, "echo a > a");
    project.cell("echo cell >> a");
    let cell = only_cell(world);
    let kept = world.json(["checkpoint", "create", &cell, "--json"]);
    project.host("\"$HOTCELL\" apply; echo user >> a");
    assert_eq!(project.cell("cat a"), "a\ncell\nuser\n");
    world.text(["checkpoint", "restore", &cell, kept["id"].as_str().unwrap()]);
    assert_eq!(project.cell("cat a"), "a\ncell\n");
    project.shell("\"$HOTCELL\" apply").exited(4);
    assert_eq!(project.read("a"), "a\ncell\nuser\n");
}

fn what_left_the_cell_is_followed_no_more(world: &World) {
    let project = Project::new(world, "echo a > a; echo b > b");
    project.cell("echo cell >> a; echo cell >> b");
    project.host("\"$HOTCELL\" apply; echo user >> a");
    assert_eq!(project.cell("cat a"), "a\ncell\nuser\n");
    // What the cell writes now is its own change, also if it was applied before.
    project.cell("printf 'a\\ncell\\n' > a");
    assert_eq!(project.host("\"$HOTCELL\" apply"), "M a\n");
    assert_eq!(project.read("a"), "a\ncell\n");
    // The same for what is discarded.
    let exec = keep_running(world, &project);
    project.cell("echo more >> b");
    project.host("\"$HOTCELL\" apply");
    world.text(["cancel", &exec]);
    project.host("\"$HOTCELL\" discard b; echo user >> b");
    assert_eq!(project.cell("cat b"), "b\ncell\nmore\nuser\n");
    project.cell("sed -i /user/d b");
    assert_eq!(project.host("\"$HOTCELL\" apply"), "M b\n");
    assert_eq!(project.read("b"), "b\ncell\nmore\n");
}

fn what_cannot_be_given_to_the_cell_waits(world: &World) {
    let project = Project::new(world, "echo a > a; echo b > b");
    let exec = keep_running(world, &project);
    project.cell("echo cell >> a; echo cell >> b");
    project.host("\"$HOTCELL\" apply");
    // A directory, and what is too large to be compared at each change.
    project.host("rm a; mkdir a; truncate -s 65M b");
    assert_eq!(project.cell("cat a b"), "a\ncell\nb\ncell\n");
    project.host("rm -r a; echo user > a; echo user > b");
    assert_eq!(project.cell("cat a b"), "user\nuser\n");
    world.text(["cancel", &exec]);
}

fn commits_of_the_user_are_seen_unless_the_cell_made_others(world: &World) {
    let git = "git -c user.name=n -c user.email=e@example.com";
    let project = Project::new(
        world,
        &format!("git init -q && echo a > a && echo b > b && git add . && {git} commit -qm one"),
    );
    let exec = keep_running(world, &project);
    project.cell(&format!("echo c >> a; {git} commit -qam two"));
    project.host("\"$HOTCELL\" apply");
    project.host(&format!("echo user >> b; {git} commit -qam three"));
    let seen = "git log --format=%s; git status --short; cat b";
    assert_eq!(project.cell(seen), "three\ntwo\none\nb\nuser\n");
    assert_eq!(project.names(), "");
    // The cell goes on from there.
    project.cell(&format!("echo d >> a; {git} commit -qam four"));
    project.host("\"$HOTCELL\" apply");
    assert_eq!(project.host("git log --format=%s; git status --short"), "four\nthree\ntwo\none\n");
    // Both make a commit: each keeps a repository that is whole.
    project.cell(&format!("echo e >> a; {git} commit -qam cell"));
    project.host(&format!("echo more >> b; {git} commit -qam user"));
    let seen = "git log -1 --format=%s; git fsck --no-dangling 2>&1; git diff --cached --name-only";
    assert_eq!(project.cell(seen), "cell\n");
    project.shell("\"$HOTCELL\" apply").exited(4);
    assert_eq!(project.host("git log -1 --format=%s; git status --short"), "user\n");
    world.text(["cancel", &exec]);
}
