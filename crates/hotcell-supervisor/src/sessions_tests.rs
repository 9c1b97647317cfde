//! Words of a session.

use hotcell_model::ExecId;

use super::done_with;

#[test]
fn only_the_word_for_its_own_run_ends_it() {
    let exec = ExecId::from_random(1);
    let other = ExecId::from_random(2);
    let word = |text: String| done_with(text.as_bytes(), &exec);
    assert_eq!(word(format!("done {exec} 0")), Some(0));
    assert_eq!(word(format!("done {exec} 255")), Some(255));
    for wrong in [
        format!("done {other} 0"),
        format!("done {exec}"),
        format!("done {exec} 256"),
        format!("done {exec} -1"),
        format!("done {exec} 0 0"),
        format!("done  {exec} 0"),
        format!("Done {exec} 0"),
        format!("done {exec} 0\n"),
        "done".to_owned(),
        String::new(),
    ] {
        assert_eq!(word(wrong.clone()), None, "{wrong:?}");
    }
    assert_eq!(done_with(&[0xff, 0xfe], &exec), None);
}
