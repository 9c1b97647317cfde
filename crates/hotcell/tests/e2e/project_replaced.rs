//! Projects in which the user replaces whole directories, or one kind of file by another: their
//! files keep their times, and still count as changed.

use crate::projects::Project;
use crate::world::{World, eventually, kill_9};

in_every_world! {
    a_directory_that_the_user_put_in_the_place_of_another_is_a_conflict,
    a_directory_that_the_user_replaced_first_is_no_conflict,
    files_and_directories_take_each_others_place,
}

in_worlds! { [root, rootless]
    a_swap_between_question_and_answer_is_not_approved,
    a_checkpoint_knows_which_directories_it_was_made_from,
    a_project_that_was_replaced_as_a_whole_is_in_conflict,
    a_project_that_was_replaced_is_seen_at_the_next_command,
    what_a_cell_could_not_be_shown_is_a_conflict,
}

fn in_conflict(project: &Project<'_>, paths: &[&str]) {
    let diff = project.shell("\"$HOTCELL\" diff --name-status").succeeded();
    for path in paths {
        assert!(diff.stderr().contains(&format!("{path} changed on the host")), "{path}: {diff:?}");
    }
    project.shell("\"$HOTCELL\" apply").exited(4);
}

fn a_directory_that_the_user_put_in_the_place_of_another_is_a_conflict(world: &World) {
    let project = Project::new(
        world,
        "for d in d1 d2 e1 e2 f1 g1 g2/deep h1 h2; do mkdir -p $d; echo $d > $d/x; done; \
         mkdir g1/deep; echo mine > g1/deep/x; echo other > same",
    );
    project.cell(
        "echo c >> d2/x; rm e2/x; mkdir f2; echo c > f2/x; echo c >> g2/deep/x; rm -r h2; echo c >> same",
    );
    // All files keep their times: only the directories are others now.
    project.host(
        "rm -r d2 e2 g2 h2; mv d1 d2; mv e1 e2; mv f1 f2; mv g1 g2; mv h1 h2; echo new > beside",
    );
    in_conflict(&project, &["d2/x", "e2/x", "f2/x", "g2/deep/x", "h2/x"]);
    // The control: a file beside which something was made is no conflict.
    assert_eq!(project.host("\"$HOTCELL\" apply same"), "M same\n");
    for (path, content) in [
        ("d2/x", "d1\n"),
        ("e2/x", "e1\n"),
        ("f2/x", "f1\n"),
        ("g2/deep/x", "mine\n"),
        ("h2/x", "h1\n"),
    ] {
        assert_eq!(project.read(path), content);
    }
    // Nor does it end with the next command, which sees the directories as they are now.
    project.cell("echo again >> d2/x; true");
    in_conflict(&project, &["d2/x", "e2/x", "f2/x", "g2/deep/x", "h2/x"]);
    project.host("\"$HOTCELL\" apply --force d2");
    assert_eq!(project.read("d2/x"), "d2\nc\nagain\n");
    // What was forced is the cell's own doing.
    project.cell("echo more >> d2/x");
    assert_eq!(project.host("\"$HOTCELL\" apply d2"), "M d2/x\n");
}

fn a_directory_that_the_user_replaced_first_is_no_conflict(world: &World) {
    let project =
        Project::new(world, "for d in d1 d2 build; do mkdir $d; echo $d > $d/x; done; echo k > k");
    project.cell("true");
    project.host("rm -r d2 build; mv d1 d2; mkdir build; echo new > build/y; rm k");
    assert_eq!(project.cell("cat d2/x; ls build"), "d1\ny\n");
    project.cell("echo c >> d2/x; echo c >> build/y; mkdir made; echo c > made/x; echo c > k");
    let expected = "M build/y\nM d2/x\nA k\nA made/\nA made/x\n";
    assert_eq!(project.host("\"$HOTCELL\" apply"), expected);
    assert_eq!(project.read("d2/x"), "d1\nc\n");
    // Nor is a directory that the apply itself made, also right after.
    project.host("echo user > made/beside");
    project.cell("echo more >> made/x");
    assert_eq!(project.host("\"$HOTCELL\" apply"), "M made/x\n");
}

fn files_and_directories_take_each_others_place(world: &World) {
    let files =
        "a b c d e; do echo $f > $f; done; mkdir -p dir/sub; echo x > dir/x; echo s > dir/sub/s";
    let project = Project::new(world, &format!("for f in {files}"));
    // The user changes a file that the cell has replaced by a directory.
    project.cell("rm a b; mkdir a b; echo c > a/x; echo c > b/x");
    project.host("echo user >> a");
    project.cell("true");
    in_conflict(&project, &["a"]);
    assert_eq!(project.read("a"), "a\nuser\n");
    // A file below needs the directory that takes the place of the host's file.
    assert_eq!(project.host("\"$HOTCELL\" apply b/x"), "D b\nA b/\nA b/x\n");
    assert_eq!(project.read("b/x"), "c\n");
    project.host("\"$HOTCELL\" discard a");
    // A directory that became a file can be applied bit by bit.
    project.cell("rm -r dir; echo file > dir");
    assert_eq!(
        project.host("\"$HOTCELL\" diff --name-status"),
        "D dir/\nA dir\nD dir/sub/\nD dir/sub/s\nD dir/x\n"
    );
    project.host("\"$HOTCELL\" apply dir/x");
    project.host("\"$HOTCELL\" apply dir/sub");
    assert!(!project.has("dir/x") && !project.has("dir/sub"));
    project.host("\"$HOTCELL\" apply dir");
    assert_eq!(project.read("dir"), "file\n");
    assert_eq!(project.names(), "");
}

fn a_swap_between_question_and_answer_is_not_approved(world: &World) {
    let project = Project::new(world, "mkdir d1 d2; echo P > d1/x; echo Q > d2/x");
    project.cell("echo c >> d2/x");
    let shown = project.host("\"$HOTCELL\" diff --json");
    assert!(!shown.contains("\"drifted\":true"), "{shown}");
    project.host("mv d2 d3; mv d1 d2");
    let shown = project.host("\"$HOTCELL\" diff --json");
    assert!(shown.contains("\"drifted\":true"), "{shown}");
    // Back where they were, they are the directories that the cell was shown.
    project.host("mv d2 d1; mv d3 d2");
    assert_eq!(project.host("\"$HOTCELL\" apply"), "M d2/x\n");
    assert_eq!(project.read("d1/x") + &project.read("d2/x"), "P\nQ\nc\n");
}

fn a_checkpoint_knows_which_directories_it_was_made_from(world: &World) {
    let project = Project::new(world, "mkdir d1 d2; echo P > d1/x; echo Q > d2/x; echo k > k");
    project.cell("echo c >> d2/x; echo c > k.new; mv k.new k");
    let cell = world.json(["cells", "--json"])["cells"][0]["id"].as_str().unwrap().to_owned();
    let kept = world.json(["checkpoint", "create", &cell, "--json"]);
    project.host("\"$HOTCELL\" discard; rm -r d2 k; mv d1 d2");
    assert_eq!(project.cell("cat d2/x; ls k 2>/dev/null || echo gone"), "P\ngone\n");
    world.text(["checkpoint", "restore", &cell, kept["id"].as_str().unwrap()]);
    assert_eq!(project.cell("cat d2/x"), "Q\nc\n");
    in_conflict(&project, &["d2/x", "k"]);
    assert_eq!(project.read("d2/x"), "P\n");
    assert!(!project.has("k"));
}

fn a_project_that_was_replaced_as_a_whole_is_in_conflict(world: &World) {
    let project = Project::new(world, "echo a > a");
    let other = world.home().join("other");
    let other = other.to_str().unwrap();
    project.host(&format!("mkdir '{other}'; echo other > '{other}/a'"));
    project.cell("echo c >> a");
    let dir = project.dir.to_str().unwrap();
    project.host(&format!("cd /; mv '{dir}' '{dir}.old'; mv '{other}' '{dir}'"));
    in_conflict(&project, &["a"]);
    assert_eq!(project.read("a"), "other\n");
}

fn a_project_that_was_replaced_is_seen_at_the_next_command(world: &World) {
    let project = Project::new(world, "echo 1 > a; echo 1 > b");
    project.cell("echo c >> b");
    let dir = project.dir.to_str().unwrap();
    project.host(&format!("cd /; rm -r '{dir}'; mkdir '{dir}'; cd '{dir}'; echo precious > a"));
    assert_eq!(project.cell("cat a; echo c >> a"), "precious\n");
    // What it wrote for the directory before is no change of this one.
    let refused = project.shell("\"$HOTCELL\" apply").exited(4);
    assert!(refused.stderr().contains(": b;"), "{refused:?}");
    assert_eq!(project.host("\"$HOTCELL\" apply a"), "M a\n");
    assert_eq!(project.read("a"), "precious\nc\n");
    assert!(!project.has("b"));
}

fn what_a_cell_could_not_be_shown_is_a_conflict(world: &World) {
    let project = Project::new(world, "mkdir d; echo 1 > d/x");
    project.cell("cat d/x");
    let cell = world.json(["cells", "--json"])["cells"][0]["id"].as_str().unwrap().to_owned();
    kill_9(world.keeper(&cell));
    // Saved as editors do; the cell may go on with what it saw before.
    project.host("echo precious > d/y; mv d/y d/x");
    let seen = project.cell("cat d/x; echo c >> d/x");
    let applied = project.shell("\"$HOTCELL\" apply");
    match seen.as_str() {
        "precious\n" => assert_eq!(applied.succeeded().stdout(), "M d/x\n"),
        _ => drop(applied.exited(4)),
    }
    assert!(project.read("d/x").starts_with("precious\n"), "{seen}");
    eventually("the cell is reachable", || world.text(["run", "--cell", &cell, "echo x"]) == "x\n");
}
