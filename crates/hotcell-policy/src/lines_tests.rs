//! Tests of the lines that may be run.

use crate::{Act, AllowedLines, Decision, Policy};

fn decided(lines: &str, text: &str) -> (Decision, Option<String>) {
    let lines = AllowedLines::parse(lines).unwrap();
    let policy = Policy::parse(None, "blocklist").unwrap().with_lines(lines);
    let verdict = policy.decide(&Act::AnyShell { text, as_root: false, directory: None });
    (verdict.decision, verdict.rule)
}

#[track_caller]
fn allowed(lines: &str, text: &str) {
    assert_eq!(decided(lines, text).0, Decision::Allow, "{lines} {text}");
}

#[track_caller]
fn refused(lines: &str, text: &str) {
    let rule = Some(AllowedLines::RULE.to_owned());
    assert_eq!(decided(lines, text), (Decision::Deny, rule), "{lines} {text}");
}

#[test]
fn every_command_of_a_text_needs_a_line() {
    allowed("echo", "echo one two");
    allowed("^echo ,^wc", "echo one | wc -l");
    allowed("git (status|log)", "git status -s");
    allowed("npm, node", "npm test && node x.js");
    allowed("", "id");
    refused("echo", "id");
    refused("echo", "echo one; id");
    refused("echo", "echo $(id)");
    refused("git (status|log)", "git push");
    allowed("ok$", "ls ok");
}

#[test]
fn what_hides_a_command_does_not_help_it() {
    refused("echo", r#"bash -c "id #echo""#);
    refused("echo,bash", r#"bash -c "id #echo""#);
    refused("echo,env", "env X=echo id");
    refused("echo", "$HOME/echo x");
    refused("echo", "e\\cho x; $cmd");
    refused("echo", "/tmp/echo x");
    refused("echo", "echo x\nid");
    refused("echo", "if (");
    refused("echo", r#"python3 -c "import os; os.system('id') # echo""#);
    refused("echo", "perl -e 'system(1); # echo'");
    refused("echo,ls", "ls | sh # echo");
    allowed("python3", r#"python3 -c "print('echo')""#);
}

#[test]
fn what_rules_refuse_stays_refused() {
    let (decision, rule) = decided("rm", "rm -rf /");
    assert_eq!((decision, rule.as_deref()), (Decision::Deny, Some("block-rm-root")));
}

#[test]
fn patterns_are_told_apart_by_commas() {
    let patterns = |text: &str| -> Vec<String> {
        AllowedLines::parse(text).unwrap().iter().map(str::to_owned).collect()
    };
    assert_eq!(patterns(r"^a{2,3}$, b\,c ,,[,]d,(e,f)"), ["^a{2,3}$", r"b\,c", "[,]d", "(e,f)"]);
    assert!(patterns(" , ").is_empty());
    let error = AllowedLines::parse("ok,(").unwrap_err();
    assert!(error.to_string().contains("\"(\""), "{error}");
}
