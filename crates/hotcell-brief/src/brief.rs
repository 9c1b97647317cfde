//! The division of one budget among all that there is to show.

use serde::{Deserialize, Serialize};

use crate::error::{error_bytes, error_cost, show_error};
use crate::json::{self, show_json};
use crate::parts::{Cut, How, Part, Parts, ResultContent, Shown, ShownResult, Text};
use crate::pieces::cost_up_to;
use crate::text::show_text;
use crate::tokens::estimate_tokens;

/// The tokens that a run's output may cost unless somebody says otherwise.
pub const DEFAULT_BUDGET: usize = 2_000;
/// Less than this cannot hold four parts and a word on each: smaller budgets are taken for it.
pub const LEAST_BUDGET: usize = 256;

/// What the note that a text lacks its middle may cost.
const GAP_NOTE: usize = 32;
/// What a word on how to read more may cost in any case.
const LEAST_MORE: usize = 24;

/// How what does not fit is made to fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// As fits what it is.
    #[default]
    Auto,
    /// Beginning and end.
    Truncate,
    /// What it is made of: keys, columns, kinds of lines.
    Summarise,
    /// Rows, lines or items, evenly spaced, with their numbers.
    Sample,
}

/// Shows what code left behind within a budget.
#[derive(Debug, Clone, Copy)]
pub struct Brief {
    budget: usize,
    strategy: Strategy,
}

/// A part, what it needs and what it costs to say that it was cut.
struct Claim<'a> {
    part: Part,
    need: usize,
    total: u64,
    more: Option<&'a str>,
    /// Whether some of it is missing already.
    lacks: bool,
    note: usize,
    granted: usize,
}

impl Brief {
    /// With a budget in tokens; less than [`LEAST_BUDGET`] is taken for that.
    #[must_use]
    pub fn new(budget_tokens: usize, strategy: Strategy) -> Self {
        Self { budget: budget_tokens.max(LEAST_BUDGET), strategy }
    }

    /// What is shown. It never costs more than the budget, and what fits is shown as it is.
    #[must_use]
    pub fn show(&self, parts: &Parts<'_>) -> Shown {
        let mut claims = self.claims(parts);
        let mut pool = self.grant(&mut claims);
        let mut shown = Shown::default();
        for claim in &claims {
            let room = claim.granted + pool;
            if !claim.lacks && claim.need <= room {
                put_whole(&mut shown, claim.part, parts);
                pool = room - claim.need;
                shown.tokens += claim.need;
                continue;
            }
            let room = room.saturating_sub(claim.note);
            let (cost, kept, how) = self.put_cut(&mut shown, claim.part, parts, room);
            shown.cut.push(claim.cut(how, kept));
            shown.tokens += cost + claim.note;
            pool = room - cost;
        }
        shown
    }

    fn claims<'a>(&self, parts: &Parts<'a>) -> Vec<Claim<'a>> {
        let mut claims = Vec::new();
        let mut claim = |part, need, total, more, lacks| {
            claims.push(Claim { part, need, total, more, lacks, note: 0, granted: 0 });
        };
        if let Some(error) = &parts.error {
            let need = error_cost(error, self.budget);
            claim(Part::Error, need, error_bytes(error), error.more, false);
        }
        if let Some(result) = &parts.result {
            match &result.content {
                ResultContent::Json(value) => {
                    let (need, bytes) = json::cost_and_bytes(value, self.budget);
                    claim(Part::Result, need, bytes, result.more, false);
                }
                ResultContent::Text(text) => {
                    let need = text_cost(text, self.budget);
                    let more = result.more.or(text.more);
                    claim(Part::Result, need, text.total_bytes, more, text.missing > 0);
                }
            }
        }
        for (part, text) in [(Part::Stdout, &parts.stdout), (Part::Stderr, &parts.stderr)] {
            if text.total_bytes > 0 {
                let need = text_cost(text, self.budget);
                claim(part, need, text.total_bytes, text.more, text.missing > 0);
            }
        }
        for claim in &mut claims {
            let most = LEAST_MORE.max(self.budget / 16);
            claim.more = claim.more.filter(|more| cost_up_to(more, most) <= most);
            claim.note = cut_cost(&claim.cut(How::Summarised, claim.total));
        }
        claims
    }

    /// Gives each part its share or what it needs; returns what is left for those that need more.
    fn grant(&self, claims: &mut [Claim<'_>]) -> usize {
        let all: usize = claims.iter().map(|claim| claim.need).sum();
        if all <= self.budget && claims.iter().all(|claim| !claim.lacks) {
            return self.budget;
        }
        let mut free = self.budget;
        let mut cut: Vec<&mut Claim<'_>> = claims.iter_mut().collect();
        loop {
            let notes: usize = cut.iter().map(|claim| claim.note).sum();
            let weights: usize = cut.iter().map(|claim| weight(claim.part)).sum();
            let each = free.saturating_sub(notes);
            let share = |claim: &Claim<'_>| each * weight(claim.part) / weights.max(1);
            let small = |claim: &&mut Claim<'_>| !claim.lacks && claim.need <= share(claim);
            let Some(at) = cut.iter().position(small) else {
                for claim in cut {
                    claim.granted = share(claim).min(claim.need) + claim.note;
                    free = free.saturating_sub(claim.granted);
                }
                return free;
            };
            let whole = cut.remove(at);
            whole.granted = whole.need;
            free -= whole.need;
        }
    }

    /// Puts what fits of a part; returns its cost, its bytes and how it was made to fit.
    fn put_cut(
        &self,
        shown: &mut Shown,
        part: Part,
        parts: &Parts<'_>,
        room: usize,
    ) -> (usize, usize, How) {
        let (text, how) = match part {
            Part::Error => {
                let Some(error) = &parts.error else { return (0, 0, How::Truncated) };
                let put = show_error(error, room);
                let whole = [put.kind.as_str(), &put.message, &put.traceback];
                let cost = whole.iter().map(|text| estimate_tokens(text)).sum();
                let bytes = whole.iter().map(|text| text.len()).sum();
                shown.error = Some(put);
                return (cost, bytes, How::Truncated);
            }
            Part::Result => match parts.result.as_ref().map(|result| &result.content) {
                Some(ResultContent::Json(value)) => show_json(value, room, self.strategy),
                Some(ResultContent::Text(text)) => show_text(text, room, self.strategy),
                None => return (0, 0, How::Truncated),
            },
            Part::Stdout => show_text(&parts.stdout, room, self.strategy),
            Part::Stderr => show_text(&parts.stderr, room, self.strategy),
        };
        let sizes = (estimate_tokens(&text), text.len(), how);
        match part {
            Part::Error => {}
            Part::Result => shown.result = Some(ShownResult::Text(text)),
            Part::Stdout => shown.stdout = text,
            Part::Stderr => shown.stderr = text,
        }
        sizes
    }
}

impl Claim<'_> {
    fn cut(&self, how: How, kept: impl TryInto<u64>) -> Cut {
        Cut {
            part: self.part,
            how,
            kept: kept.try_into().unwrap_or(self.total).min(self.total),
            total: self.total,
            how_to_read_more: self.more.map(str::to_owned),
        }
    }
}

fn weight(part: Part) -> usize {
    match part {
        Part::Error => 4,
        Part::Result => 3,
        Part::Stdout => 2,
        Part::Stderr => 1,
    }
}

fn put_whole(shown: &mut Shown, part: Part, parts: &Parts<'_>) {
    match part {
        Part::Error => shown.error = parts.error.as_ref().map(crate::error::whole),
        Part::Result => {
            shown.result = parts.result.as_ref().map(|result| match &result.content {
                ResultContent::Json(value) => ShownResult::Json((*value).clone()),
                ResultContent::Text(text) => ShownResult::Text(text.head.clone().into_owned()),
            });
        }
        Part::Stdout => shown.stdout = parts.stdout.head.clone().into_owned(),
        Part::Stderr => shown.stderr = parts.stderr.head.clone().into_owned(),
    }
}

fn text_cost(text: &Text<'_>, limit: usize) -> usize {
    let gap = if text.missing > 0 { GAP_NOTE } else { 0 };
    cost_up_to(&text.head, limit) + cost_up_to(&text.tail, limit) + gap
}

/// What a word on a cut costs, as it stands in the answer.
fn cut_cost(cut: &Cut) -> usize {
    serde_json::to_string(cut).map_or(usize::MAX / 8, |text| estimate_tokens(&text))
}
