//! The prompt of a program that waits for input: the line of its output that it stopped in.

use hotcell_journal::read_terminal_sizes;
use hotcell_model::{Exec, Result, TerminalScreen};

use crate::emulator::last_line;
use crate::input_echo::{AnswerText, Reader, TerminalBefore};
use crate::page::Wanted;
use crate::site::Site;
use crate::view::View;
use crate::{exec_poll, fault};

/// How much of the end of the output may be its last line.
const PROMPT_BYTES: u64 = 4096;
/// The longest prompt that is returned, in characters.
const MOST_PROMPT: usize = 200;

/// The last line of an exec's output, as the caller may see it; of a program that uses the whole
/// screen, the line with the cursor. Empty if the cursor is hidden.
pub(crate) async fn prompt_of(site: &Site, exec: &Exec, view: &View) -> Result<String> {
    if exec.pty {
        let TerminalScreen { rows, cursor, alternate, .. } =
            site.screen_of(exec, view).await?.screen;
        let Some(cursor) = cursor else { return Ok(String::new()) };
        if alternate {
            let row = rows.get(usize::from(cursor.row)).map_or("", |row| row.trim());
            return Ok(row.chars().take(MOST_PROMPT).collect());
        }
    }
    let mut bytes = last_bytes(site, exec, view, u64::MAX).await?;
    // A question may be a whole line.
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    let mut line: String = last_line(&bytes).chars().take(MOST_PROMPT).collect();
    if let Some(glass) = view.glass(site, &exec.cell).await? {
        line = glass.text(&line);
    }
    Ok(line)
}

/// Whether an exec's output ends where input is typed: within a line, or in a program that uses the
/// whole screen.
pub(crate) async fn ends_in_prompt(site: &Site, exec: &Exec, view: &View) -> Result<bool> {
    if !exec.pty {
        let last = last_bytes(site, exec, view, u64::MAX).await?;
        return Ok(last.last().is_some_and(|byte| *byte != b'\n'));
    }
    let TerminalScreen { rows, cursor, alternate, .. } = site.screen_of(exec, view).await?.screen;
    let Some(cursor) = cursor else { return Ok(true) };
    let is_empty = rows.get(usize::from(cursor.row)).is_none_or(String::is_empty);
    Ok(alternate || !is_empty)
}

/// The text that a terminal shows after this input, which comes after the output up to a seq.
pub(crate) async fn answer_to(
    site: &Site,
    exec: &Exec,
    input: &[u8],
    reader: Reader,
    after_seq: u64,
    view: &View,
) -> Result<AnswerText> {
    let line = last_bytes(site, exec, view, after_seq).await?;
    let (records, id) = (site.records(&exec.cell), exec.id.clone());
    let sizes = fault::blocking(move || {
        read_terminal_sizes(&records, &id)
            .map_err(|error| fault::io(format_args!("read the terminal size of exec {id}"), &error))
    });
    let size = sizes.await?.last().map(|change| change.size).unwrap_or_default();
    Ok(AnswerText::to_input(input, &TerminalBefore { size, line, reader }))
}

/// The last line up to a seq, as the caller may see it.
async fn last_bytes(site: &Site, exec: &Exec, view: &View, up_to: u64) -> Result<Vec<u8>> {
    let wanted = Wanted { tail_lines: Some(1), grep: None, stream: None, max_bytes: PROMPT_BYTES };
    let page = exec_poll::read(site, exec, &wanted, 0, view).await?;
    let records = page.records.into_iter().filter(|record| record.seq <= up_to);
    Ok(records.flat_map(|record| record.bytes).collect())
}
