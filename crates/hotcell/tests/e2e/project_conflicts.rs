//! Files of a project that both the user and the cell changed: none is overwritten, and only those
//! that were changed after each other count.

use crate::projects::Project;
use crate::world::{Finished, World, eventually};

in_every_world! {
    real_files_that_changed_meanwhile_are_not_replaced,
    files_that_the_user_changed_first_are_no_conflicts,
    files_that_the_user_removed_meanwhile_are_not_brought_back,
}

in_worlds! { [root, rootless]
    a_commit_of_the_cell_is_no_conflict_with_a_look_at_the_status,
}

fn real_files_that_changed_meanwhile_are_not_replaced(world: &World) {
    let project =
        Project::new(world, "for f in a b c d e; do echo $f > $f; done; mkdir dir; echo 1 > dir/1");
    project.cell("echo cell >> a; echo cell >> b; rm c; echo cell >> d; rm -r dir; echo new > n");
    project.host("echo host >> a; touch c; rm d; echo host > dir/2");
    let refused = project.shell("\"$HOTCELL\" apply").exited(4);
    for path in ["a", "c", "d", "dir/2"] {
        assert!(refused.stderr().contains(path), "{path}: {refused:?}");
    }
    // Nothing was, not even what could have been.
    assert_eq!(project.read("b"), "b\n");
    assert!(project.has("c") && project.has("dir/1") && !project.has("n") && !project.has("d"));
    let diff = project.shell("\"$HOTCELL\" diff --name-status").succeeded();
    assert!(diff.stderr().contains("a changed on the host meanwhile"), "{diff:?}");
    assert!(!diff.stderr().contains("b changed"), "{diff:?}");

    assert_eq!(project.host("\"$HOTCELL\" apply b n"), "M b\nA n\n");
    // The cell goes on with a file that was applied: that is no change of somebody else.
    project.cell("echo more >> b");
    assert_eq!(project.host("\"$HOTCELL\" apply b"), "M b\n");
    assert_eq!(project.read("b"), "b\ncell\nmore\n");
    // But a touch of the host's is.
    project.cell("echo again >> b");
    project.host("touch b");
    project.shell("\"$HOTCELL\" apply b").exited(4);
    project.host("\"$HOTCELL\" apply --force");
    assert_eq!(
        (project.read("a"), project.read("d")),
        ("a\ncell\n".to_owned(), "d\ncell\n".to_owned())
    );
    assert!(!project.has("c") && !project.has("dir"));
}

fn files_that_the_user_changed_first_are_no_conflicts(world: &World) {
    let project = Project::new(world, "mkdir d; for f in a b c d/e g h; do echo $f > $f; done");
    project.cell("echo cell >> g; rm -r d");
    project.host("echo user >> a; echo user > new; chmod 600 c; echo user > b.new; mv b.new b");
    project.host("echo user >> g; echo user >> d/e");
    // The cell goes on from what the user wrote. Its own version of `g` is older than the user's,
    // also once it was written anew, and so is what it removed.
    assert_eq!(project.cell("cat a b new; ls d || echo gone"), "a\nuser\nuser\nuser\ngone\n");
    project.cell("for f in a b c new; do echo cell >> $f; done; sed -i s/cell/again/ g");
    let diff = project.shell("\"$HOTCELL\" diff --name-status").succeeded();
    for path in ["g", "d/e"] {
        assert!(diff.stderr().contains(&format!("{path} changed on the host")), "{diff:?}");
    }
    for path in ["a", "b", "c", "new"] {
        assert!(!diff.stderr().contains(&format!("{path} changed")), "{path}: {diff:?}");
    }
    assert_eq!(project.host("\"$HOTCELL\" apply a b c new"), "M a\nM b\nM c\nM new\n");
    assert_eq!(project.read("a") + &project.read("b"), "a\nuser\ncell\nuser\ncell\n");
    project.shell("\"$HOTCELL\" apply g").exited(4);
    project.shell("\"$HOTCELL\" apply d").exited(4);
    // A discarded version is forgotten: the next one begins with the user's.
    project.host("\"$HOTCELL\" discard g");
    project.cell("echo once more >> g");
    assert_eq!(project.host("\"$HOTCELL\" apply g"), "M g\n");
    assert_eq!(project.read("g"), "g\nuser\nonce more\n");
    // A checkpoint brings back a version that is older than what the user wrote since.
    project.cell("echo cell >> h");
    let cell = world.json(["cells", "--json"])["cells"][0]["id"].as_str().unwrap().to_owned();
    let kept = world.json(["checkpoint", "create", &cell, "--json"]);
    project.host("\"$HOTCELL\" discard; echo user >> h");
    assert_eq!(project.cell("cat h"), "h\nuser\n");
    world.text(["checkpoint", "restore", &cell, kept["id"].as_str().unwrap()]);
    assert_eq!(project.cell("cat h"), "h\ncell\n");
    project.shell("\"$HOTCELL\" apply h").exited(4);
    assert_eq!(project.read("h"), "h\nuser\n");
}

fn files_that_the_user_removed_meanwhile_are_not_brought_back(world: &World) {
    let project = Project::new(world, "mkdir sub; for f in a b c sub/d e; do echo $f > $f; done");
    // Written in place, by renaming a new file, and both in a directory that goes as a whole.
    project.cell("echo cell >> a; sed -i s/b/cell/ b; echo cell > sub/d; echo n > n; rm c");
    eventually("the cell's keeper has walked the project", || {
        let state = world.state_dir();
        let script = format!("find '{}' -name starting-names | wc -l", state.display());
        world.other("sh", ["-ec", &script]).run().succeeded().stdout().trim() == "1"
    });
    project.host("rm -r a b sub");
    let all_three = |diff: &Finished| {
        for path in ["a", "b", "sub/d"] {
            assert!(diff.stderr().contains(&format!("{path} changed on the host")), "{diff:?}");
        }
        assert!(!diff.stderr().contains("n changed"), "{diff:?}");
    };
    let diff = || project.shell("\"$HOTCELL\" diff --name-status").succeeded();
    all_three(&diff());
    // What is applied beside them changes nothing about that.
    assert_eq!(project.host("\"$HOTCELL\" apply n c"), "D c\nA n\n");
    all_three(&diff());
    project.shell("\"$HOTCELL\" apply").exited(4);
    assert!(!project.has("a") && !project.has("b") && !project.has("sub"));

    // Nor is a file of the cell that was applied, and that the user removed then: it leaves the cell.
    let dir = project.dir.to_str().unwrap();
    let exec = world.text(["run", "-d", "--workspace", dir, "sleep 1000"]);
    project.cell("echo m > m");
    project.host("\"$HOTCELL\" apply m");
    project.host("rm m");
    assert_eq!(project.host("\"$HOTCELL\" apply m"), "");
    assert!(!project.has("m"));
    assert_eq!(project.cell("ls m 2>/dev/null || echo gone"), "gone\n");
    // But the cell may make a file again that it had removed itself.
    project.cell("echo again > c");
    assert_eq!(project.host("\"$HOTCELL\" apply c"), "A c\n");
    world.text(["cancel", exec.trim()]);

    // Once the cell's version is discarded, a new file of that name is just that.
    project.host("\"$HOTCELL\" discard b");
    project.cell("echo new > b");
    assert_eq!(project.host("\"$HOTCELL\" apply b"), "A b\n");
    project.host("\"$HOTCELL\" apply --force");
    assert_eq!(project.read("a"), "a\ncell\n");
}

fn a_commit_of_the_cell_is_no_conflict_with_a_look_at_the_status(world: &World) {
    let git = "git -c user.name=n -c user.email=e@example.com";
    let project = Project::new(
        world,
        &format!("git init -q && echo a > a && echo b > b && git add . && {git} commit -qm one"),
    );
    let index = || std::fs::read(project.dir.join(".git/index")).unwrap();
    project.cell(&format!("echo c >> a; {git} commit -qam two"));
    let before = index();
    // The user's git writes the index anew, with other times of the same entries.
    project.host("touch -d 2001-01-01 b; git status");
    assert!(before != index());
    project.host("\"$HOTCELL\" apply");
    assert_eq!(project.host("git log --format=%s; git status --short"), "two\none\n");
    // The control: what the user stages is a change.
    project.cell(&format!("echo d >> a; {git} commit -qam three"));
    project.host("echo user >> b; git add b");
    project.shell("\"$HOTCELL\" apply").exited(4);
    assert_eq!(project.host("git log --format=%s; git status --short"), "two\none\nM  b\n");
}
