//! The ledger: what is written down of every call and everything that comes of it, and the port to
//! where that is kept.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Caller, Error, ExecId, Result, Role, Tenant, Timestamp};

/// What an entry tells of.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A call was answered or refused; one that is answered by a stream, when that begins.
    Call,
    /// The same for what needs the scope `admin`.
    Admin,
    /// An exec is about to start.
    ExecStart,
    /// An exec has ended, whether or not somebody waited for it.
    ExecEnd,
    /// A cell reached for a name over the network.
    Egress,
    /// A rule decided about a call.
    Decision,
    /// A person allowed or refused what a rule asked about.
    Approval,
    /// A process died in the middle of writing an entry; what it left was taken away.
    Recovered,
    /// The ledger was found to be other than it was left, and goes on from here.
    Broken,
    /// Entries could not be written, so many.
    Missed,
    /// Old entries were removed, as the settings say.
    Retention,
}

impl EntryKind {
    /// Every one.
    pub const ALL: [Self; 11] = [
        Self::Call,
        Self::Admin,
        Self::ExecStart,
        Self::ExecEnd,
        Self::Egress,
        Self::Decision,
        Self::Approval,
        Self::Recovered,
        Self::Broken,
        Self::Missed,
        Self::Retention,
    ];

    /// The kind as it stands in the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Admin => "admin",
            Self::ExecStart => "exec_start",
            Self::ExecEnd => "exec_end",
            Self::Egress => "egress",
            Self::Decision => "decision",
            Self::Approval => "approval",
            Self::Recovered => "recovered",
            Self::Broken => "broken",
            Self::Missed => "missed",
            Self::Retention => "retention",
        }
    }
}

/// What was decided about what an entry tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may be done.
    Allowed,
    /// A person has to say.
    Asked,
    /// It may not be done.
    Denied,
}

impl Verdict {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Allowed, Self::Asked, Self::Denied];

    /// The verdict as it stands in the ledger.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Asked => "asked",
            Self::Denied => "denied",
        }
    }
}

macro_rules! from_word {
    ($($kind:ident $what:literal),+ $(,)?) => {
        $(impl std::str::FromStr for $kind {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Self::ALL.into_iter().find(|it| it.as_str() == text).ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|it| it.as_str()).collect();
                    Error::invalid(format!(concat!("there is no ", $what, " {:?}"), text))
                        .hint(format!("use one of: {}", known.join(", ")))
                })
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        })+
    };
}

from_word! {
    EntryKind "kind of entries",
    Verdict "verdict",
}

/// One thing more that an entry tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Detail {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
}

impl Detail {
    /// The longest text.
    pub const MAX_CHARS: usize = 256;
}

impl From<u64> for Detail {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<i32> for Detail {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for Detail {
    fn from(text: &str) -> Self {
        Self::Text(text.chars().take(Self::MAX_CHARS).collect())
    }
}

impl From<String> for Detail {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// What is to be written down. Arguments stand in it as a digest alone: no command, no value of a
/// variable, no content of a file, no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEntry {
    /// What it tells of.
    pub kind: EntryKind,
    /// The call that it belongs to.
    pub call_id: Option<String>,
    /// On whose behalf.
    pub principal: String,
    /// Whose entry it is: those of other tenants do not exist for a tenant.
    pub tenant: Tenant,
    /// In which role.
    pub role: Option<Role>,
    /// The cell, by its id, or as it was named where there is none.
    pub cell: Option<String>,
    /// The exec.
    pub exec: Option<ExecId>,
    /// What was asked for or happened, in a word.
    pub what: String,
    /// The digest of the arguments, from [`Ledger::digest`].
    pub args: Option<String>,
    /// What was decided.
    pub verdict: Option<Verdict>,
    /// The rule that decided.
    pub rule: Option<String>,
    /// `ok`, or the code of the error; of an exec how it ended.
    pub outcome: Option<String>,
    /// How long it took, in milliseconds.
    pub took_ms: Option<u64>,
    /// What else there is to tell.
    pub details: BTreeMap<String, Detail>,
}

impl LedgerEntry {
    /// The principal of what nobody asked for.
    pub const HOTCELL: &'static str = "hotcell";

    /// An entry on behalf of a caller.
    #[must_use]
    pub fn of(caller: &Caller, kind: EntryKind, what: &str) -> Self {
        Self {
            call_id: caller.call_id.clone(),
            principal: caller.principal.clone(),
            tenant: caller.tenant.clone(),
            role: Some(caller.role),
            ..Self::own(kind, what)
        }
    }

    /// An entry about what happened by itself.
    #[must_use]
    pub fn own(kind: EntryKind, what: &str) -> Self {
        Self {
            kind,
            call_id: None,
            principal: Self::HOTCELL.to_owned(),
            tenant: Tenant::default(),
            role: None,
            cell: None,
            exec: None,
            what: what.to_owned(),
            args: None,
            verdict: None,
            rule: None,
            outcome: None,
            took_ms: None,
            details: BTreeMap::new(),
        }
    }

    /// The same with something more to tell.
    #[must_use]
    pub fn with(mut self, name: &str, detail: impl Into<Detail>) -> Self {
        self.details.insert(name.to_owned(), detail.into());
        self
    }

    /// The same with something more to tell, if there is.
    #[must_use]
    pub fn with_some(self, name: &str, detail: Option<impl Into<Detail>>) -> Self {
        match detail {
            Some(detail) => self.with(name, detail),
            None => self,
        }
    }
}

/// An entry as it stands in the ledger. As JSON it is byte for byte the line that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerRecord {
    /// Its number; the first is 1, and none is left out.
    pub n: u64,
    /// When it was written.
    pub time: Timestamp,
    /// What it tells of.
    pub kind: EntryKind,
    /// The call that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// On whose behalf.
    pub principal: String,
    /// Whose entry it is.
    pub tenant: Tenant,
    /// In which role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    /// The exec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecId>,
    /// What was asked for or happened, in a word.
    pub what: String,
    /// The digest of the arguments, with a key: equal arguments have equal digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// What was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// `ok`, or the code of the error; of an exec how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// What else there is to tell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, Detail>,
    /// What ties it to all before it; 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mac: String,
}

impl LedgerRecord {
    /// An entry with its number and time, not tied to anything yet.
    #[must_use]
    pub fn new(n: u64, time: Timestamp, entry: LedgerEntry) -> Self {
        Self {
            n,
            time,
            kind: entry.kind,
            call_id: entry.call_id,
            principal: entry.principal,
            tenant: entry.tenant,
            role: entry.role,
            cell: entry.cell,
            exec: entry.exec,
            what: entry.what,
            args: entry.args,
            verdict: entry.verdict,
            rule: entry.rule,
            outcome: entry.outcome,
            took_ms: entry.took_ms,
            details: entry.details,
            mac: String::new(),
        }
    }
}

/// How an append waits while another process writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendWait {
    /// Not at all.
    Never,
    /// For a while.
    Bounded,
}

/// How an append came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is entry number so much.
    Written(u64),
    /// Another process writes just now, and it was not to be waited for.
    Busy,
}

/// What of the ledger is wanted. Everything that is said has to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LedgerFilter {
    /// Only entries after this number.
    pub after: Option<u64>,
    /// Only entries written at that time or later.
    pub since: Option<Timestamp>,
    /// Only entries written before that time.
    pub until: Option<Timestamp>,
    /// Only about a cell, by any of these names.
    pub cells: Vec<String>,
    /// Only about this exec.
    pub exec: Option<ExecId>,
    /// Only on behalf of this principal.
    pub principal: Option<String>,
    /// Only of this tenant.
    pub tenant: Option<Tenant>,
    /// Only with this verdict.
    pub verdict: Option<Verdict>,
    /// Only of this kind.
    pub kind: Option<EntryKind>,
    /// Only with this outcome.
    pub outcome: Option<String>,
    /// Only of this call.
    pub call_id: Option<String>,
}

impl LedgerFilter {
    /// Whether an entry is wanted.
    #[must_use]
    pub fn takes(&self, record: &LedgerRecord) -> bool {
        let same = |wanted: &Option<String>, found: Option<&String>| {
            wanted.as_ref().is_none_or(|wanted| found == Some(wanted))
        };
        self.after.is_none_or(|after| record.n > after)
            && self.since.is_none_or(|since| record.time >= since)
            && self.until.is_none_or(|until| record.time < until)
            && (self.cells.is_empty()
                || record.cell.as_ref().is_some_and(|cell| self.cells.contains(cell)))
            && self.exec.as_ref().is_none_or(|exec| record.exec.as_ref() == Some(exec))
            && same(&self.principal, Some(&record.principal))
            && self.tenant.as_ref().is_none_or(|tenant| record.tenant == *tenant)
            && self.verdict.is_none_or(|verdict| record.verdict == Some(verdict))
            && self.kind.is_none_or(|kind| record.kind == kind)
            && same(&self.outcome, record.outcome.as_ref())
            && same(&self.call_id, record.call_id.as_ref())
    }
}

/// What is wrong with a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Entries that were there are not.
    Removed,
    /// An entry is not as it was written.
    Changed,
    /// An entry is there twice.
    Duplicated,
    /// Entries are in another order than they were written.
    Reordered,
    /// The newest entries are gone.
    Cut,
    /// What is written there is no entry.
    Foreign,
    /// What tells how far the ledger goes is gone.
    HeadMissing,
    /// It is not as it was written.
    HeadChanged,
    /// It is older than the ledger.
    HeadOlder,
    /// There is no key to verify with.
    KeyMissing,
    /// The ledger was written with another key.
    KeyWrong,
    /// The entry that was expected under a number is another one.
    Unexpected,
    /// Something of that was found while the ledger was written to, and it went on.
    Broken,
}

impl FaultKind {
    /// The kind as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::Duplicated => "duplicated",
            Self::Reordered => "reordered",
            Self::Cut => "cut",
            Self::Foreign => "foreign",
            Self::HeadMissing => "head_missing",
            Self::HeadChanged => "head_changed",
            Self::HeadOlder => "head_older",
            Self::KeyMissing => "key_missing",
            Self::KeyWrong => "key_wrong",
            Self::Unexpected => "unexpected",
            Self::Broken => "broken",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerFault {
    /// What.
    pub kind: FaultKind,
    /// The number of the first entry that it concerns; 0 where it concerns none alone.
    pub from: u64,
    /// The number of the last.
    pub to: u64,
    /// The file it was found in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The same in words.
    pub message: String,
}

/// Whether a ledger is as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerState {
    /// It is.
    Intact,
    /// It is not.
    Damaged,
}

/// What came of verifying a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerReport {
    /// Whether it is as it was written.
    pub state: LedgerState,
    /// The number of the oldest entry that is kept.
    pub first: u64,
    /// The number of the newest entry.
    pub last: u64,
    /// How many entries were found to be as they were written.
    pub verified: u64,
    /// Names the ledger, if one was found: no entry of another one with the same key fits into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<String>,
    /// What the newest entry is tied by: written down elsewhere, it proves later that nothing
    /// before it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// What is wrong, the first hundred.
    pub faults: Vec<LedgerFault>,
    /// How many more are wrong.
    pub more_faults: u64,
    /// What is not wrong and worth a word.
    pub notes: Vec<String>,
}

/// An entry that is known from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownEntry {
    /// Its number.
    pub n: u64,
    /// Its mac.
    pub mac: String,
}

impl std::str::FromStr for KnownEntry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = text.split_once(':').and_then(|(n, mac)| {
            let is_mac = mac.len() == 64
                && mac.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            Some(Self { n: n.parse().ok()?, mac: is_mac.then(|| mac.to_owned())? })
        });
        known.ok_or_else(|| {
            Error::invalid(format!("{text:?} names no entry"))
                .hint("write its number, a colon and its mac of 64 hexadecimal digits")
        })
    }
}

/// What verifying is to look at.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LedgerCheck {
    /// An entry that has to be there as it is known from elsewhere.
    pub known: Option<KnownEntry>,
    /// What is wrong with entries up to this number is known, and not told again.
    pub after: u64,
}

/// Where the ledger is kept. Its methods wait for files. Entries are ordered among all processes.
pub trait Ledger: fmt::Debug + Send + Sync {
    /// Whether it was opened before, so that what is asked of it takes microseconds.
    fn is_open(&self) -> bool;

    /// Makes sure that there is room for what is about to be written down. Cheap when there is.
    ///
    /// # Errors
    /// `unavailable` when the ledger cannot be written.
    fn reserve(&self) -> Result<()>;

    /// Writes an entry down. Whole or not at all, also when the process is killed.
    ///
    /// # Errors
    /// `unavailable` when it cannot be written; how many could not be is written down with the next
    /// one that can.
    fn append(&self, entry: &LedgerEntry, wait: AppendWait) -> Result<Appended>;

    /// The digest of arguments, with a key, so that nobody without it finds short ones by trying.
    ///
    /// # Errors
    /// `unavailable` when there is no key.
    fn digest(&self, parts: &[&[u8]]) -> Result<String>;

    /// The number of the newest entry.
    ///
    /// # Errors
    /// `unavailable` when the ledger cannot be read.
    fn last(&self) -> Result<u64>;

    /// Shows every entry that a filter takes, the oldest first. Entries are not verified.
    ///
    /// # Errors
    /// `unavailable` when the ledger cannot be read.
    fn scan(&self, filter: &LedgerFilter, each: &mut dyn FnMut(LedgerRecord)) -> Result<()>;

    /// The newest entries that a filter takes, as many as `limit`, the oldest of them first; with
    /// [`LedgerFilter::after`] the first ones after that.
    ///
    /// # Errors
    /// `unavailable` when the ledger cannot be read.
    fn query(&self, filter: &LedgerFilter, limit: usize) -> Result<Vec<LedgerRecord>>;

    /// Looks whether every entry is as it was written.
    ///
    /// # Errors
    /// `unavailable` when the ledger cannot be read. One that was tampered with is no error.
    fn verify(&self, check: &LedgerCheck) -> Result<LedgerReport>;
}
