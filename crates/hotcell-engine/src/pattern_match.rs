//! Searches new output for a pattern.

use std::time::{Duration, Instant};

use hotcell_model::{Exec, Result};
use regex::bytes::Regex;

use crate::exec_poll;
use crate::input_echo::{Answer, AnswerText};
use crate::page::Wanted;
use crate::site::Site;
use crate::view::View;

/// How much of new output a pattern is matched against: the last of it.
const MATCHED_BYTES: usize = 256 * 1024;
/// What may be the beginning of an echo counts as output once nothing has followed it for this long.
const ECHO_COMPLETE: Duration = Duration::from_millis(200);

/// New output that is searched for a pattern, as the caller sees it.
pub(crate) struct Matching {
    pattern: Regex,
    after_seq: u64,
    text: MatchedText,
    printed_at: Instant,
}

/// What the pattern is matched against.
enum MatchedText {
    /// What is printed to a terminal: without escape sequences and the echo of input.
    Terminal(Box<AnswerText>),
    Plain(Vec<u8>),
}

pub(crate) enum Found {
    Yes,
    /// Not in what can be shown; more can be shown after this time.
    NotYet(Option<Duration>),
}

impl Matching {
    /// Searches the output after a seq. `answer` is the text of a terminal.
    pub(crate) fn new(
        pattern: Regex,
        exec: &Exec,
        after_seq: u64,
        answer: Option<AnswerText>,
    ) -> Self {
        let text = match exec.pty {
            true => MatchedText::Terminal(Box::new(answer.unwrap_or_default())),
            false => MatchedText::Plain(Vec::new()),
        };
        Self { pattern, after_seq, text, printed_at: Instant::now() }
    }

    /// Ignores the output so far.
    pub(crate) fn ignore_so_far(&mut self) {
        match &mut self.text {
            MatchedText::Terminal(answer) => answer.clear(),
            MatchedText::Plain(text) => text.clear(),
        }
    }

    /// Reads the output that is there and searches it.
    pub(crate) async fn find(&mut self, site: &Site, exec: &Exec, view: &View) -> Result<Found> {
        let wanted = Wanted { tail_lines: None, grep: None, stream: None, max_bytes: 1 << 20 };
        // A secret may be put together from parts with escape sequences between them.
        let glass = match &self.text {
            MatchedText::Terminal(_) => view.glass(site, &exec.cell).await?,
            MatchedText::Plain(_) => None,
        };
        loop {
            let page = exec_poll::read(site, exec, &wanted, self.after_seq, view).await?;
            let went_on = page.next_seq > self.after_seq;
            self.after_seq = page.next_seq;
            for record in page.records {
                self.printed_at = Instant::now();
                match &mut self.text {
                    MatchedText::Terminal(answer) => answer.feed(&record.bytes),
                    MatchedText::Plain(text) => text.extend_from_slice(&record.bytes),
                }
            }
            let is_match = |text: &[u8]| match &glass {
                Some(glass) => {
                    let seen = glass.text(&String::from_utf8_lossy(text));
                    self.pattern.is_match(seen.as_bytes())
                }
                None => self.pattern.is_match(text),
            };
            let (is_found, uncertain_for) = match &self.text {
                MatchedText::Plain(text) => (is_match(text), None),
                MatchedText::Terminal(answer) => {
                    let Answer { mut output, uncertain } = answer.answer();
                    let left = ECHO_COMPLETE.saturating_sub(self.printed_at.elapsed());
                    let is_open = !uncertain.is_empty() && !left.is_zero();
                    if !is_open {
                        output.extend_from_slice(&uncertain);
                    }
                    (is_match(&output), is_open.then_some(left))
                }
            };
            if is_found {
                return Ok(Found::Yes);
            }
            match &mut self.text {
                MatchedText::Terminal(answer) => answer.keep_last(MATCHED_BYTES),
                MatchedText::Plain(text) => {
                    text.drain(..text.len().saturating_sub(MATCHED_BYTES));
                }
            }
            if page.at_end || page.waits.is_some() || !went_on {
                let waits = page.waits.into_iter().chain(uncertain_for).min();
                return Ok(Found::NotYet(waits));
            }
        }
    }
}
