//! What code told of itself when it ended.

use hotcell_journal::read_report;
use hotcell_model::{CodeReport, Command, Exec};

use crate::fault;
use crate::site::Site;
use crate::view::View;

impl Site {
    /// What code reported that has ended, as its caller may see it. Without a report there is still
    /// what it printed and how it ended.
    pub(crate) async fn report_of(&self, exec: &Exec, view: &View) -> Option<Box<CodeReport>> {
        let Command::Code(_) = &exec.command else { return None };
        exec.end.as_ref()?;
        let (records, id) = (self.records(&exec.cell), exec.id.clone());
        let read = fault::blocking(move || {
            read_report(&records, &id)
                .map_err(|error| fault::io(format_args!("read the report of {id}"), &error))
        });
        let bytes = match read.await {
            Ok(bytes) => bytes?,
            Err(error) => {
                tracing::warn!(exec = %exec.id, %error, "what code reported cannot be read");
                return None;
            }
        };
        // A secret is told by the name before it: all of the report is looked at, not value by value.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let text = match view.glass(self, &exec.cell).await.ok()? {
            Some(glass) => glass.text(&text),
            None => text,
        };
        hotcell_runner::read_report(text.as_bytes()).ok().map(Box::new)
    }
}
