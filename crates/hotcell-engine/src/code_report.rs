//! What there is to tell of code: its own word, what it called and what is shown of it.

use hotcell_journal::read_report;
use hotcell_model::{CodeReport, CodeRun, Command, CutStrategy, Exec};

use crate::code_shown::{Printed, ToShow};
use crate::fault;
use crate::site::Site;
use crate::view::View;

impl Site {
    /// What there is to tell of an exec that is code, as its caller may see it. Without a report there
    /// is still what it printed and how it ended.
    pub(crate) async fn code_of(
        &self,
        exec: &Exec,
        printed: Printed<'_>,
        strategy: CutStrategy,
        view: &View,
    ) -> Option<Box<CodeRun>> {
        let Command::Code(_) = &exec.command else { return None };
        let report = self.report_of(exec, view).await;
        let artifacts = report.as_ref().map(|report| report.artifacts.as_slice());
        let images = Box::pin(self.images_of(exec, artifacts.unwrap_or_default())).await;
        let tools = self.tools_called(exec).await;
        let to_show = ToShow {
            exec,
            printed,
            report: report.as_ref(),
            tools: &tools,
            strategy,
            settings: &self.settings.code,
        };
        let (status, shown) = to_show.show();
        Some(Box::new(CodeRun { status, report, tools, images, shown }))
    }

    /// What code reported that has ended, as its caller may see it.
    async fn report_of(&self, exec: &Exec, view: &View) -> Option<CodeReport> {
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
        hotcell_runner::read_report(text.as_bytes()).ok()
    }
}
