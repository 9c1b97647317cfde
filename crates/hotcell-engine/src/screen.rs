//! The screens of execs with a terminal, rendered from their output logs.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_journal::{Ended, LogReader, SizeChange, read_terminal_sizes};
use hotcell_masking::Shapes;
use hotcell_model::{Error, Exec, ExecId, ExecState, Result, Stream, TerminalScreen, TerminalSize};
use tokio::time::sleep;

use crate::emulator::{Emulator, ScreenRow, trimmed};
use crate::fault;
use crate::key_names::CursorKeys;
use crate::page::{Page, Wanted};
use crate::screen_highlight::HighlightedSpan;
use crate::site::Site;
use crate::view::View;

/// Terminals that are kept, so that the next look reads only what is new.
const MOST_KEPT: usize = 8;
/// How much is read for one look at most. Of a longer log only the end is rendered.
const MOST_READ_BYTES: u64 = 8 << 20;
const PAGE_BYTES: u64 = 1 << 20;

/// Whose output, and whether it is seen with secrets.
type Key = (ExecId, bool);

/// The terminals of this process that were looked at last.
#[derive(Debug, Default)]
pub(crate) struct Screens(Mutex<Vec<(Key, Arc<Mutex<Terminal>>)>>);

/// A terminal and how far its output was read.
#[derive(Default)]
struct Terminal {
    state: Option<Rendered>,
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal").finish_non_exhaustive()
    }
}

struct Rendered {
    emulator: Emulator,
    /// The last seq that it has.
    seq: u64,
    /// How many changes of its size were applied.
    resizes: usize,
    /// Whether output before it is missing.
    partial: bool,
}

/// One look at a terminal.
struct Look {
    rows: Vec<ScreenRow>,
    highlighted: Vec<HighlightedSpan>,
    screen: TerminalScreen,
    cursor_keys: CursorKeys,
    /// The last seq that was rendered.
    seq: u64,
    /// Whether something that is printed already is yet to be shown, and for how long.
    waits: Option<std::time::Duration>,
}

/// The log that is read.
struct Log {
    records: PathBuf,
    exec: ExecId,
    shapes: Option<Arc<Shapes>>,
    ended: Ended,
}

/// A screen and the last seq of the output that it shows.
pub(crate) struct ShownScreen {
    pub(crate) screen: TerminalScreen,
    pub(crate) seq: u64,
}

impl Screens {
    fn get(&self, key: &Key) -> Arc<Mutex<Terminal>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(known, _)| known == key);
        let entry = match found {
            Some(place) => kept.remove(place),
            None => (key.clone(), Arc::default()),
        };
        let terminal = Arc::clone(&entry.1);
        kept.insert(0, entry);
        kept.truncate(MOST_KEPT);
        terminal
    }
}

impl Site {
    /// The screen of an exec's terminal as this caller may see it.
    pub(crate) async fn screen_of(&self, exec: &Exec, view: &View) -> Result<ShownScreen> {
        let mut look = self.look_at_screen(exec, view).await?;
        if let Some(left) = look.waits {
            sleep(left).await;
            look = self.look_at_screen(exec, view).await?;
        }
        let Look { rows, highlighted, mut screen, seq, .. } = look;
        let glass = view.glass(self, &exec.cell).await?;
        screen.highlighted =
            highlighted.into_iter().map(|span| span.shown(&rows, glass.as_ref())).collect();
        if let Some(glass) = glass {
            // A secret may be put together on the screen from parts that were printed apart.
            screen.rows = trimmed(glass.rows(&rows));
            screen.title = screen.title.map(|title| glass.text(&title));
        }
        Ok(ShownScreen { screen, seq })
    }

    /// What the cursor keys of an exec's terminal send at present.
    pub(crate) async fn cursor_keys_of(&self, exec: &Exec, view: &View) -> Result<CursorKeys> {
        Ok(self.look_at_screen(exec, view).await?.cursor_keys)
    }

    async fn look_at_screen(&self, exec: &Exec, view: &View) -> Result<Look> {
        if !exec.pty {
            return Err(Error::conflict(format!("exec {} has no terminal", exec.id))
                .hint("start it with pty: true, or read its output as messages"));
        }
        let shapes = view.shapes().map(Arc::clone);
        let terminal = self.screens.get(&(exec.id.clone(), shapes.is_some()));
        let ended = match exec.state {
            ExecState::Ended => Ended::Yes,
            ExecState::Queued | ExecState::Running => Ended::NotYet,
        };
        let log = Log { records: self.records(&exec.cell), exec: exec.id.clone(), shapes, ended };
        fault::blocking(move || {
            // One whose rendering failed is begun again.
            let mut terminal = terminal.lock().unwrap_or_else(PoisonError::into_inner);
            let before = terminal.state.take();
            let read = log.render(before).map_err(|error| {
                fault::io(format_args!("read the output of exec {}", log.exec), &error)
            });
            let (rendered, look) = read?;
            terminal.state = Some(rendered);
            Ok(look)
        })
        .await
    }
}

impl Log {
    /// Reads on from where a terminal is; from the end of the log if that is too far away.
    fn render(&self, before: Option<Rendered>) -> std::io::Result<(Rendered, Look)> {
        let sizes = read_terminal_sizes(&self.records, &self.exec)?;
        let mut rendered = match before {
            Some(rendered) => rendered,
            None => self.begin(&sizes)?,
        };
        let mut waits = self.read_on(&mut rendered, &sizes)?;
        if let Reached::TooMuch = waits {
            rendered = self.begin(&sizes)?;
            waits = self.read_on(&mut rendered, &sizes)?;
        }
        let waits = match waits {
            Reached::End(waits) => waits,
            // It prints faster than it is read.
            Reached::TooMuch => None,
        };
        rendered.resize_up_to(rendered.seq.saturating_add(1), &sizes);
        let rows = rendered.emulator.rows();
        let texts = rows.iter().map(|row| row.text.clone()).collect();
        let mut screen = rendered.emulator.screen(texts);
        screen.partial = rendered.partial;
        let cursor_keys = rendered.emulator.cursor_keys();
        let highlighted = rendered.emulator.highlighted();
        let look = Look { rows, highlighted, screen, cursor_keys, seq: rendered.seq, waits };
        Ok((rendered, look))
    }

    /// A terminal at the start of the log, or near its end if the log is long.
    fn begin(&self, sizes: &[SizeChange]) -> std::io::Result<Rendered> {
        let mut reader = LogReader::at(&self.records, &self.exec)?;
        let tail = reader.tail_lines(u64::MAX, Some(Stream::Pty), MOST_READ_BYTES / 2)?;
        let first = tail.records.first().map_or(1, |record| record.seq);
        let mut rendered = Rendered {
            emulator: Emulator::new(TerminalSize::default()),
            seq: first.saturating_sub(1),
            resizes: 0,
            partial: first > 1,
        };
        rendered.resize_up_to(first, sizes);
        Ok(rendered)
    }

    fn read_on(&self, rendered: &mut Rendered, sizes: &[SizeChange]) -> std::io::Result<Reached> {
        let mut bytes = 0;
        loop {
            let page = self.page_after(rendered.seq)?;
            rendered.partial |= page.dropped.is_some();
            for record in &page.records {
                rendered.resize_up_to(record.seq, sizes);
                rendered.emulator.feed(&record.bytes);
                bytes += record.bytes.len() as u64;
            }
            let went_on = page.next_seq > rendered.seq;
            rendered.seq = rendered.seq.max(page.next_seq);
            if page.at_end || page.waits.is_some() || !went_on {
                return Ok(Reached::End(page.waits));
            }
            if bytes > MOST_READ_BYTES {
                return Ok(Reached::TooMuch);
            }
        }
    }

    fn page_after(&self, seq: u64) -> std::io::Result<Page> {
        let wanted = Wanted {
            tail_lines: None,
            grep: None,
            stream: Some(Stream::Pty),
            max_bytes: PAGE_BYTES,
        };
        match &self.shapes {
            None => wanted.read(&self.records, &self.exec, seq, self.ended),
            Some(shapes) => wanted.read_masked(shapes, &self.records, &self.exec, seq, self.ended),
        }
    }
}

/// How far a log was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// To its end, but for what is held back for so long.
    End(Option<std::time::Duration>),
    /// There was more than is read at once.
    TooMuch,
}

impl Rendered {
    /// Applies the sizes that the terminal got before this output.
    fn resize_up_to(&mut self, seq: u64, sizes: &[SizeChange]) {
        if sizes.len() < self.resizes {
            // It was begun anew with the newest.
            self.resizes = sizes.len().saturating_sub(1);
        }
        while let Some(change) = sizes.get(self.resizes).filter(|change| change.after_seq < seq) {
            self.emulator.resize(change.size);
            self.resizes += 1;
        }
    }
}
