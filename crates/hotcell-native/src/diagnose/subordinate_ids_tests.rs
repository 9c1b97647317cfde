//! The command that is proposed takes nobody's ids.

use super::remedy;
use crate::diagnose::testing::machine;

#[test]
fn the_range_lies_behind_all_that_are_given_out() {
    let machine = machine(&[
        ("usr/bin/newuidmap", ""),
        ("etc/subuid", "alice:100000:65536\nbob:165536:65536\n"),
        ("etc/subgid", "alice:300000:10\n# nobody\n"),
    ]);
    let expected =
        "`sudo usermod --add-subuids 300010-365545 --add-subgids 300010-365545 $(id -un)`";
    assert_eq!(remedy(machine.path()), expected);
}

#[test]
fn missing_programs_are_installed_first() {
    let remedy = remedy(machine(&[]).path());
    assert!(remedy.starts_with("install newuidmap and newgidmap"), "{remedy}");
    assert!(remedy.contains("--add-subuids 100000-165535"), "{remedy}");
}
