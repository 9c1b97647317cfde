//! What policy, redaction and ledger cost a call: two engines, one with all of them and one with none,
//! are asked the same in turns.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hotcell_engine::{Engine, Policies, PolicyUse};
use hotcell_ledger::{ChainedLedger, LedgerSettings, Sync};
use hotcell_policy::{Policy, PolicyError};

use crate::parts::Bench;
use crate::samples::{Shot, Turns, take_turns};
use crate::site::{Guards, Site};

const PROFILE: &str = "careful";
const ASK_WITHIN: Duration = Duration::from_secs(300);
/// What is run, and how many lines it prints.
const RUNS: [(&str, &str, usize); 2] = [
    ("`true`", "true", 0),
    ("200 lines", "seq -f 'src/part-%g.rs:12:34: warning: a line that a build may print' 200", 200),
];

/// A profile as it is, for as long as the engine lives.
#[derive(Debug)]
struct Profile(Arc<Policy>);

impl Policies for Profile {
    fn in_force(&self) -> Arc<Policy> {
        Arc::clone(&self.0)
    }

    fn by_profile(&self, profile: &str) -> std::result::Result<Policy, PolicyError> {
        Policy::parse(None, profile)
    }
}

/// Puts rules and a ledger into an engine, as a server has them.
pub(crate) fn put_into(engine: &mut Engine, state: &std::path::Path) -> Result<()> {
    let policy = Policy::parse(None, PROFILE)?;
    engine.judge_by(Arc::new(Profile(Arc::new(policy))), PolicyUse::Enforced, ASK_WITHIN)?;
    let ledger = ChainedLedger::new(LedgerSettings {
        directory: state.join("ledger"),
        key_file: state.join("ledger.key"),
        head_file: state.join("ledger.head"),
        segment_bytes: 16 << 20,
        keep: Some(Duration::from_secs(90 * 86_400)),
        keep_bytes: Some(1 << 30),
        floor: Some(Duration::from_secs(7 * 86_400)),
        most_bytes: Some(16 << 30),
        sync: Sync::Off,
    });
    engine.keep_ledger_in(Arc::new(ledger))?;
    Ok(())
}

impl Bench<'_> {
    pub(crate) fn guards(&mut self) -> Result<()> {
        let open = |name: &str, guards: Guards| -> Result<Site> {
            let state = self.files.join(name);
            std::fs::create_dir(&state)?;
            Site::open(&state, self.hotcell, self.cgroups, guards)
        };
        let (bare, guarded) = (open("bare", Guards::None)?, open("guarded", Guards::All)?);
        let ((in_bare, _), (in_guarded, _)) = (bare.spawn(None)?, guarded.spawn(None)?);
        for (what, command, lines) in RUNS {
            let shots: [Shot<'_>; 2] = [
                Box::new(|| bare.run_text(&in_bare, command, lines)),
                Box::new(|| guarded.run_text(&in_guarded, command, lines)),
            ];
            let turns = Turns { rounds: self.rounds(400), in_a_row: 10 };
            let [without, with] = take_turns(turns, shots)?;
            let min = with.min_ratio_to(&without);
            let ratio = format!("{:.3} × without (min {min:.3})", with.ratio_to(&without));
            self.add(&format!("exec_run {what}: no guards"), &without, String::new(), "");
            let named = format!("exec_run {what}: policy, redaction and ledger");
            self.add(&named, &with, ratio, "≤ 1.10 × without");
        }
        bare.kill(&in_bare)?;
        guarded.kill(&in_guarded)
    }
}
