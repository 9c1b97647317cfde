//! How far the ledger goes, kept apart from it: two slots that are written in turns, so that one of
//! them is always whole.

use hotcell_model::Timestamp;

use crate::boot::Boot;
use crate::chain::{Keys, LedgerId, MAC_BYTES, Mac};

const MAGIC: &[u8; 8] = b"hotcell1";
/// What is written of a slot.
pub(crate) const SLOT_BYTES: usize = 144 + MAC_BYTES;
/// How far apart they are: no sector of a disk has both.
const APART: usize = 4096;
/// What is read of the file.
pub(crate) const HEAD_BYTES: usize = APART + SLOT_BYTES;

/// How far the ledger goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// How often a head was written.
    pub(crate) generation: u64,
    /// The ledger that it is about.
    pub(crate) ledger: LedgerId,
    /// The number of the newest entry.
    pub(crate) count: u64,
    /// What that is tied by.
    pub(crate) mac: Mac,
    /// The number of the first entry of the segment that is written to.
    pub(crate) segment: u64,
    /// How long that segment is.
    pub(crate) size: u64,
    /// The number of the first entry that is kept.
    pub(crate) kept_from: u64,
    /// In which start of the machine it was written.
    pub(crate) boot: Boot,
    /// What was found to be wrong and is still to be written down.
    pub(crate) pending: Option<Pending>,
    /// What could not be written and is still to be told: a head has its place on a full disk, too.
    pub(crate) missed: Missed,
}

/// Entries that could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Missed {
    pub(crate) count: u64,
    /// When the first was to be written; in milliseconds.
    pub(crate) since: u64,
}

impl Missed {
    /// One that is to be written now.
    pub(crate) fn one() -> Self {
        Self { count: 1, since: Timestamp::now().0 }
    }

    pub(crate) fn and(self, later: Self) -> Self {
        let since = if self.count == 0 { later.since } else { self.since };
        Self { count: self.count.saturating_add(later.count), since }
    }
}

/// What is still to be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    /// What was found.
    pub(crate) breach: Breach,
    /// Whether the machine was started anew since the head was written.
    pub(crate) restarted: bool,
}

impl Pending {
    const RESTARTED: u8 = 0x80;

    fn code(self) -> u8 {
        self.breach.code() | if self.restarted { Self::RESTARTED } else { 0 }
    }

    fn of_code(code: u8) -> Option<Self> {
        let breach = Breach::of_code(code & !Self::RESTARTED)?;
        Some(Self { breach, restarted: code & Self::RESTARTED != 0 })
    }
}

/// What was found to be wrong while the ledger was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breach {
    /// The newest entries were gone.
    Cut,
    /// The head was gone.
    HeadMissing,
    /// The head was not as it was written.
    HeadChanged,
    /// The head was older than the ledger.
    HeadOlder,
    /// What was no entry stood at the end.
    Foreign,
    /// There was a key and no ledger.
    BegunAnew,
    /// It was older than a process that has it open knew it to be.
    RolledBack,
    /// It was another ledger than a process that has it open knew.
    Replaced,
}

impl Breach {
    const ALL: [Self; 8] = [
        Self::Cut,
        Self::HeadMissing,
        Self::HeadChanged,
        Self::HeadOlder,
        Self::Foreign,
        Self::BegunAnew,
        Self::RolledBack,
        Self::Replaced,
    ];

    /// What the entry about it is called.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::HeadMissing => "head_missing",
            Self::HeadChanged => "head_changed",
            Self::HeadOlder => "head_older",
            Self::Foreign => "foreign",
            Self::BegunAnew => "begun_anew",
            Self::RolledBack => "rolled_back",
            Self::Replaced => "replaced",
        }
    }

    fn code(self) -> u8 {
        let place = Self::ALL.iter().position(|known| *known == self);
        place.and_then(|place| u8::try_from(place + 1).ok()).unwrap_or_default()
    }

    fn of_code(code: u8) -> Option<Self> {
        usize::from(code).checked_sub(1).and_then(|place| Self::ALL.get(place)).copied()
    }
}

impl Head {
    /// That of a ledger without entries.
    pub(crate) fn new(keys: &Keys, ledger: LedgerId, boot: Boot) -> Self {
        Self {
            generation: 0,
            ledger,
            count: 0,
            mac: keys.begin(&ledger),
            segment: 1,
            size: 0,
            kept_from: 1,
            boot,
            pending: None,
            missed: Missed::default(),
        }
    }

    /// The slot as it is written, and where.
    pub(crate) fn encode(&self, keys: &Keys) -> (u64, [u8; SLOT_BYTES]) {
        let mut slot = [0; SLOT_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            slot[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(MAGIC);
        put(&keys.id);
        for number in [self.generation, self.count, self.segment, self.size, self.kept_from] {
            put(&number.to_be_bytes());
        }
        for number in [self.missed.count, self.missed.since] {
            put(&number.to_be_bytes());
        }
        put(&self.ledger);
        put(&self.boot);
        put(&self.mac);
        put(&[self.pending.map_or(0, Pending::code)]);
        let (signed, mac) = slot.split_at_mut(SLOT_BYTES - MAC_BYTES);
        mac.copy_from_slice(&keys.head(signed));
        ((self.generation % 2) * APART as u64, slot)
    }

    fn decode(slot: &[u8], at: usize, keys: &Keys) -> Slot {
        let Some((signed, mac)) = slot.split_last_chunk::<MAC_BYTES>() else { return Slot::Empty };
        if slot.iter().all(|byte| *byte == 0) {
            return Slot::Empty;
        }
        if keys.head(signed) != *mac {
            let is_foreign = signed.starts_with(MAGIC) && signed.get(8..16) != Some(&keys.id[..]);
            return if is_foreign { Slot::OtherKey } else { Slot::Unreadable };
        }
        let number = |at: usize| {
            let bytes = signed.get(16 + 8 * at..24 + 8 * at).and_then(|it| it.try_into().ok());
            u64::from_be_bytes(bytes.unwrap_or_default())
        };
        // Copied to the place of the other, an older one would pass for the newest.
        if usize::try_from(number(0) % 2).ok() != Some(at / APART) {
            return Slot::Unreadable;
        }
        Slot::Head(Self {
            generation: number(0),
            ledger: part(signed, 72),
            count: number(1),
            segment: number(2),
            size: number(3),
            kept_from: number(4),
            boot: part(signed, 88),
            mac: part(signed, 104),
            pending: signed.get(136).copied().and_then(Pending::of_code),
            missed: Missed { count: number(5), since: number(6) },
        })
    }
}

/// So many bytes of a slot from there on.
fn part<const BYTES: usize>(signed: &[u8], at: usize) -> [u8; BYTES] {
    let found = signed.get(at..at + BYTES).and_then(|it| it.try_into().ok());
    found.unwrap_or([0; BYTES])
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot {
    Empty,
    Unreadable,
    OtherKey,
    Head(Head),
}

/// What the file of the head holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing was ever written to it.
    Nothing,
    /// A head; `torn` when the slot that was to be written next is not whole.
    Head { head: Head, torn: bool },
    /// Nothing that was written with this key.
    Unreadable,
    /// What was written with another key.
    OtherKey,
}

/// Reads the file.
pub(crate) fn read(bytes: &[u8], keys: &Keys) -> Found {
    let slot = |at: usize| match bytes.get(at..at + SLOT_BYTES) {
        Some(slot) => Head::decode(slot, at, keys),
        None if bytes.get(at..).is_none_or(|rest| rest.iter().all(|byte| *byte == 0)) => {
            Slot::Empty
        }
        None => Slot::Unreadable,
    };
    match (slot(0), slot(APART)) {
        (Slot::Head(a), Slot::Head(b)) => {
            let head = if a.generation > b.generation { a } else { b };
            Found::Head { head, torn: false }
        }
        (Slot::Head(head), other) | (other, Slot::Head(head)) => {
            // The second slot is first written for the second head.
            let torn = other != Slot::Empty || head.generation > 1;
            Found::Head { head, torn }
        }
        (Slot::Empty, Slot::Empty) => Found::Nothing,
        (Slot::OtherKey, _) | (_, Slot::OtherKey) => Found::OtherKey,
        (Slot::Unreadable, _) | (_, Slot::Unreadable) => Found::Unreadable,
    }
}
