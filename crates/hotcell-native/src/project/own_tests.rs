//! A file is found in a directory under whatever name it is given.

use std::fs;
use std::os::unix::fs::symlink;

use super::own::lies_in;

#[test]
fn files_and_the_ways_to_them_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    let project = top.join("project");
    let elsewhere = top.join("elsewhere");
    fs::create_dir_all(project.join("deep")).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    for file in [project.join("deep/rules"), elsewhere.join("rules")] {
        fs::write(file, "").unwrap();
    }
    symlink("../project/deep/rules", elsewhere.join("to-project")).unwrap();
    symlink(&elsewhere, project.join("out")).unwrap();
    symlink("loop", elsewhere.join("loop")).unwrap();
    for inside in [
        project.clone(),
        project.join("deep/rules"),
        project.join("not/there"),
        elsewhere.join("to-project"),
        elsewhere.join("../project/deep/rules"),
        // The file is not in it, but a link on the way is.
        project.join("out/rules"),
    ] {
        assert!(lies_in(&project, &inside), "{}", inside.display());
    }
    for outside in [
        elsewhere.join("rules"),
        elsewhere.join("loop"),
        top.join("projects/rules"),
        project.join("../elsewhere/rules"),
        top.clone(),
    ] {
        assert!(!lies_in(&project, &outside), "{}", outside.display());
    }
}
