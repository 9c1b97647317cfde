//! What a caller sees of secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use hotcell_masking::Shapes;
use hotcell_model::{
    Approval, Approvals, Asked, Caller, CellId, CellRef, Error, ErrorCode, Exec, PolicyVerdict,
    Reply, Result, SecretGrant, ToolAnswer, ToolRan,
};

use crate::asked::glass_for;
use crate::glass::{Glass, Value};
use crate::site::Site;
use crate::veil::Veil;

/// What a caller sees of secrets.
#[derive(Debug, Clone)]
pub(crate) enum View {
    /// Everything as it is: the operator's.
    Raw,
    /// Neither the values of secrets nor, unless that is switched off, what has their form.
    Masked(Option<Arc<Shapes>>),
}

impl View {
    pub(crate) fn of(site: &Site, caller: &Caller) -> Self {
        if caller.sees_raw() { Self::Raw } else { Self::Masked(site.find_shapes()) }
    }

    /// What output is seen through, unless it is seen as it is.
    pub(crate) fn veil(&self) -> Option<Veil> {
        self.shapes().map(Veil::new)
    }

    pub(crate) fn shapes(&self) -> Option<&Arc<Shapes>> {
        match self {
            Self::Raw => None,
            Self::Masked(shapes) => shapes.as_ref(),
        }
    }

    /// An error as it is shown: it may quote what was asked for.
    pub(crate) fn error(&self, mut error: Error) -> Error {
        if let Some(shapes) = self.shapes() {
            error.message = shapes.redact_text(&error.message);
            error.hint = error.hint.map(|hint| shapes.redact_text(&hint));
        }
        error
    }

    /// How texts of a cell are shown; as they are where nothing is hidden.
    pub(crate) async fn glass(&self, site: &Site, cell: &CellId) -> Result<Option<Glass>> {
        match self {
            Self::Raw => Ok(None),
            Self::Masked(shapes) => {
                let glass = Glass::new(shapes.clone(), site.values_of(cell).await?);
                Ok(Some(glass).filter(|glass| !glass.is_clear()))
            }
        }
    }

    /// Hides secrets in a text that shows changes of a cell's files.
    pub(crate) async fn cover_changes(
        &self,
        site: &Site,
        cell: &CellId,
        text: &mut String,
    ) -> Result<()> {
        if let Some(glass) = self.glass(site, cell).await? {
            *text = glass.changes(text);
        }
        Ok(())
    }

    /// Hides secrets in what a reply says about execs and changes. Output and files are hidden where
    /// they are read.
    pub(crate) async fn cover(&self, site: &Site, reply: &mut Reply) -> Result<()> {
        if matches!(self, Self::Raw) {
            return Ok(());
        }
        match reply {
            Reply::Exec(exec) => self.cover_exec(site, exec).await,
            Reply::ExecResult(result) => self.cover_exec(site, &mut result.exec).await,
            Reply::ExecPage(page) => self.cover_exec(site, &mut page.exec).await,
            Reply::InputAccepted(accepted) => match &mut accepted.output {
                Some(page) => self.cover_exec(site, &mut page.exec).await,
                None => Ok(()),
            },
            Reply::Execs(execs) => self.cover_execs(site, &mut execs.execs).await,
            Reply::CellDetails(details) => self.cover_execs(site, &mut details.execs).await,
            Reply::Asked(asked) => self.cover_asked(site, asked).await,
            Reply::Approvals(Approvals { approvals }) => {
                for asked in approvals {
                    self.cover_asked(site, asked).await?;
                }
                Ok(())
            }
            Reply::PolicyVerdict(verdict) => {
                self.cover_verdict(verdict);
                Ok(())
            }
            Reply::ToolRan(ToolRan { answer: Some(answer), value, .. }) => {
                self.cover_answer(answer, value);
                Ok(())
            }
            // What code gets stays in the cell until it is shown.
            Reply::ToolRan(ToolRan { answer: None, .. }) => Ok(()),
            Reply::Cell(_)
            | Reply::Cells(_)
            | Reply::CellKilled(_)
            | Reply::Volumes(_)
            | Reply::Volume(_)
            | Reply::Reconciled(_)
            | Reply::Collected(_)
            | Reply::Checkpoint(_)
            | Reply::Checkpoints(_)
            | Reply::CheckpointDiff(_)
            | Reply::ToolsFound(_)
            | Reply::NamesFound(_)
            | Reply::ToolsListed(_)
            | Reply::NetworkState(_)
            | Reply::NetRecords(_)
            | Reply::ProjectChanges(_)
            | Reply::ProjectApplied(_)
            | Reply::ProjectDiscarded(_)
            | Reply::ExecCancelled(_)
            | Reply::FileDone(_)
            | Reply::Secret(_)
            | Reply::Secrets(_)
            | Reply::Image(_)
            | Reply::Images(_)
            | Reply::TokenCreated(_)
            | Reply::Tokens(_)
            | Reply::Token(_)
            | Reply::AuditPage(_)
            | Reply::LedgerSummary(_)
            | Reply::CodeFigures(_)
            | Reply::Diagnoses(_)
            | Reply::Probed(_) => Ok(()),
        }
    }

    async fn cover_execs(&self, site: &Site, execs: &mut [Exec]) -> Result<()> {
        let mut glasses: BTreeMap<CellId, Option<Glass>> = BTreeMap::new();
        for exec in execs {
            if !glasses.contains_key(&exec.cell) {
                glasses.insert(exec.cell.clone(), self.glass(site, &exec.cell).await?);
            }
            if let Some(Some(glass)) = glasses.get(&exec.cell) {
                cover_one(glass, exec);
            }
        }
        Ok(())
    }

    async fn cover_exec(&self, site: &Site, exec: &mut Exec) -> Result<()> {
        if let Some(glass) = self.glass(site, &exec.cell).await? {
            cover_one(&glass, exec);
        }
        Ok(())
    }

    async fn cover_asked(&self, site: &Site, asked: &mut Asked) -> Result<()> {
        let cell = asked.cell.as_deref().and_then(|cell| cell.parse().ok());
        if let Some(glass) = glass_for(site, cell.as_ref()).await? {
            asked.what = glass.text(&asked.what);
            cover_approval(&glass, &mut asked.approval);
        }
        Ok(())
    }

    /// Hides what has the form of a secret in what a caller is answered by another server.
    fn cover_answer(&self, answer: &mut ToolAnswer, value: &mut serde_json::Value) {
        let Some(shapes) = self.shapes() else { return };
        let whole = answer.content.iter_mut().chain(&mut answer.structured).chain([value]);
        whole.for_each(|value| cover_value(shapes, value));
    }

    /// A verdict quotes what it is about, in its parts and in words.
    fn cover_verdict(&self, verdict: &mut PolicyVerdict) {
        let Some(shapes) = self.shapes() else { return };
        let parts = verdict
            .parts
            .iter_mut()
            .flat_map(|part| [&mut part.what, &mut part.why].into_iter().chain(&mut part.name));
        for text in parts.chain([&mut verdict.reason, &mut verdict.explanation]) {
            *text = shapes.redact_text(text);
        }
    }
}

fn cover_value(shapes: &Shapes, value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = shapes.redact_text(text),
        serde_json::Value::Array(items) => {
            items.iter_mut().for_each(|item| cover_value(shapes, item));
        }
        serde_json::Value::Object(keys) => {
            keys.values_mut().for_each(|item| cover_value(shapes, item));
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

fn cover_one(glass: &Glass, exec: &mut Exec) {
    glass.command(&mut exec.command);
    if let Some(approval) = &mut exec.approval {
        cover_approval(glass, approval);
    }
}

/// The facts were covered when they were taken down.
fn cover_approval(glass: &Glass, approval: &mut Approval) {
    approval.reason = glass.text(&approval.reason);
    for part in &mut approval.parts {
        part.what = glass.text(&part.what);
    }
}

impl Site {
    /// What has the form of a secret, unless nobody is to look for that.
    pub(crate) fn find_shapes(&self) -> Option<Arc<Shapes>> {
        let make = || Arc::new(Shapes::with_names(&self.settings.redact_names));
        self.settings.redact_shapes.then(|| Arc::clone(self.shapes.get_or_init(make)))
    }

    /// The values of the secrets that a cell is granted. One that is gone is left out: its value is
    /// known to nobody here.
    async fn values_of(&self, cell: &CellId) -> Result<Vec<Value>> {
        if self.secrets.is_none() {
            return Ok(Vec::new());
        }
        let tenant = self.tenant_of(&CellRef::Id(cell.clone())).await?;
        let mut grants = self.links.secrets_of(cell);
        if grants.is_empty() && self.links.driver_of(cell).is_none() {
            let stored = self.find_stored(cell).await?;
            grants = stored.map(|cell| cell.spec.secrets).unwrap_or_default();
        }
        if grants.is_empty() {
            return Ok(Vec::new());
        }
        self.with_secrets(move |store| {
            let mut values = Vec::new();
            for SecretGrant { name, .. } in grants {
                match store.resolve(&tenant, &name) {
                    Ok(value) => values.push(Value::new(name.as_str(), value.expose().as_bytes())),
                    Err(error) if error.code == ErrorCode::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(values)
        })
        .await
    }
}
