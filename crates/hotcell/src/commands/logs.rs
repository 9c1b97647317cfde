//! `hotcell logs`: what an exec has printed, and what it prints.

use std::io::{self, Write};

use hotcell_model::{ExecPoll, OutputFilter, OutputForm, OutputView};

use crate::args::Logs;
use crate::errors::Failure;
use crate::printer::{Piece, Target};
use crate::records::{Format, RecordPrinter};
use crate::session::Session;
use crate::show::{print, print_json};

const PAGE_BYTES: u64 = 1 << 20;
/// How long one request waits for output that is still to come.
const WAIT_S: f64 = 20.0;

/// Prints the output of an exec.
pub(super) async fn logs(session: &Session, args: Logs) -> Result<u8, Failure> {
    let format = match args.json {
        true => Format::Json,
        false => Format::Raw,
    };
    let mut records = RecordPrinter::new(format);
    let mut poll = ExecPoll {
        exec: args.exec,
        after_seq: args.after,
        wait_s: 0.0,
        filter: OutputFilter {
            tail_lines: args.tail,
            grep: args.grep,
            stream: args.stream.map(Into::into),
        },
        max_bytes: PAGE_BYTES,
        view: OutputView::first_output(),
    };
    if args.screen {
        return screen(session, poll, format).await;
    }
    loop {
        let page = session.ask(poll.clone()).await?;
        if let Some(dropped) = page.dropped
            && let Some(piece) = records.dropped(dropped)?
        {
            write(piece)?;
        }
        for record in page.records {
            if let Some(piece) = records.record(record)? {
                write(piece)?;
            }
        }
        let moved = page.next_seq > poll.after_seq;
        if page.complete || !(args.follow || moved) {
            break;
        }
        poll.after_seq = page.next_seq.max(poll.after_seq);
        poll.filter.tail_lines = None;
        poll.wait_s = match args.follow {
            true => WAIT_S,
            false => 0.0,
        };
    }
    if let Some(piece) = records.finish()? {
        write(piece)?;
    }
    Ok(0)
}

/// Prints the screen of an exec's terminal.
async fn screen(session: &Session, mut poll: ExecPoll, format: Format) -> Result<u8, Failure> {
    poll.view.form = OutputForm::Screen;
    let Some(screen) = session.ask(poll).await?.screen else { return Ok(0) };
    match format {
        Format::Json => print_json(&serde_json::json!({
            "rows": screen.rows,
            "cursor": screen.cursor,
            "highlighted": screen.highlighted,
            "title": screen.title,
            "alternate_screen": screen.alternate,
            "size": [screen.size.rows, screen.size.cols],
            "partial": screen.partial,
            "cut_to": screen.cut_to.map(|size| [size.rows, size.cols]),
        }))?,
        Format::Raw | Format::RawTerminal => {
            let rows: String = screen.rows.iter().map(|row| format!("{row}\n")).collect();
            print(rows.as_bytes())?;
        }
    }
    Ok(0)
}

fn write(piece: Piece) -> Result<(), Failure> {
    match piece.target {
        Target::Out => print(&piece.bytes),
        Target::Err => {
            // Whoever closed standard error does not want to know; output goes on.
            let _ = io::stderr().write_all(&piece.bytes);
            Ok(())
        }
    }
}
