//! Every command of the corpus is walked and judged as it is written down there.

#![expect(
    clippy::disallowed_methods,
    reason = "HOTCELL_BLESS writes what is found into the corpus"
)]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use hotcell_policy::{Act, Finding, Kind, Policy, PolicyError, Verdict};

const PROFILES: [&str; 3] = ["careful", "allowlist", "blocklist"];
const LEAST: usize = 300;

fn unescape(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\t", "\t").replace("\\z", "\\")
}

/// What a finding is called in the corpus: its name, and what of it cannot be known.
fn word(finding: &Finding) -> Option<String> {
    let mut word = match finding.kind {
        Kind::Command => finding.name.clone().unwrap_or_else(|| "?".to_owned()),
        Kind::Function => format!("{}()", finding.name.clone().unwrap_or_default()),
        Kind::Redirect => finding.what.replace(' ', ""),
        Kind::Text => "text".to_owned(),
        Kind::Import => format!("import:{}", finding.name.clone().unwrap_or_default()),
        Kind::Call => format!("call:{}", finding.name.clone().unwrap_or_default()),
        Kind::Image | Kind::Egress | Kind::Secret | Kind::Tool | Kind::File => return None,
    };
    if finding.destructive {
        word.push('!');
    }
    for what in &finding.dynamic {
        word.push('~');
        word.push_str(&format!("{what:?}").to_lowercase());
    }
    Some(word)
}

fn decide(policy: &Policy, text: &str) -> Verdict {
    policy.decide(&Act::Shell { text, as_root: false, directory: Some("/workspace") })
}

fn row(open: &Policy, profiles: &[Policy], command: &str) -> String {
    let text = unescape(command);
    let mut row = command.to_owned();
    let walked: Vec<String> =
        decide(open, &text).parts.iter().filter_map(|part| word(&part.finding)).collect();
    row.push('\t');
    row.push_str(&walked.join(" "));
    for policy in profiles {
        row.push('\t');
        row.push_str(decide(policy, &text).decision.name());
    }
    row
}

#[test]
fn every_command_is_walked_and_judged_as_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/commands.tsv");
    let corpus = fs::read_to_string(&path).unwrap();
    let open = Policy::parse(None, "open").unwrap();
    let profiles: Result<Vec<Policy>, PolicyError> =
        PROFILES.iter().map(|profile| Policy::parse(None, profile)).collect();
    let profiles = profiles.unwrap();
    let mut wrong = String::new();
    let mut blessed = String::new();
    let mut count = 0;
    for line in corpus.lines() {
        if line.is_empty() || line.starts_with("##") {
            blessed.push_str(line);
            blessed.push('\n');
            continue;
        }
        count += 1;
        let found = row(&open, &profiles, line.split('\t').next().unwrap());
        if found != line {
            writeln!(wrong, "written: {line}\nfound:   {found}").unwrap();
        }
        blessed.push_str(&found);
        blessed.push('\n');
    }
    if std::env::var_os("HOTCELL_BLESS").is_some() {
        fs::write(&path, blessed).unwrap();
        return;
    }
    assert!(count >= LEAST, "the corpus has only {count} commands");
    assert!(wrong.is_empty(), "\n{wrong}");
}
