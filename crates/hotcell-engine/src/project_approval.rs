//! A person's approval of changes to the user's real files.
//!
//! An agent may ask to apply or discard what its cell changed in a project, but only a person
//! decides. The request is bound to a digest of the changes, taken while the cell is held still, and
//! the question shows all of them: an approval never covers changes that were not shown. Only the
//! ignored files that a discard throws away are shown as the topmost directories they are in.

use hotcell_model::{
    ApprovalNeed, AskedFact, Caller, CellRef, ChangeKind, DriftedFiles, Error, ErrorCode, PlanFor,
    ProjectApplied, ProjectApply, ProjectChange, ProjectChanges, ProjectDiff, ProjectDiscard,
    ProjectDiscarded, ProjectPaths, ProjectPlan, Reply, Request, Result,
};

use crate::asked::{self, bounded};
use crate::checkpoint::Running;
use crate::site::Site;

/// The rule that approvals of this kind carry; no policy can change it.
pub(crate) const RULE: &str = "real-files";
/// The most changes that one approval covers: a person has to read all of them.
const MOST_CHANGES: u32 = 500;
/// How much of a patch is looked at.
const PATCH_BYTES: u64 = 64 << 10;
/// How much text one question shows: less than questions are cut at.
const SHOWN_CHARS: usize = 28_000;
/// How much of that is one fact.
const FACT_CHARS: usize = 1900;
/// How many guarded paths one apply may name: the question lists all of them.
const MOST_GUARDED: usize = 20;
/// How much of names is part of a reason.
const MOST_CHARS: usize = 120;
/// How long an approval is waited for if no policy says so.
const WITHIN_MS: u64 = 600_000;

/// What has to happen before a request is done.
pub(crate) enum Preparation {
    /// Nothing: it changes no real files, or the person whose files they are asks.
    Ready,
    /// There is nothing to approve and nothing to do.
    Nothing(Box<Reply>),
    /// A person has to approve it.
    Approval(ApprovalNeed),
}

/// Binds a request that changes real files to the changes as they are now, and says what a person
/// has to approve.
///
/// # Errors
/// `denied` if the caller asks to overwrite files; `limit_exceeded` for more changes than a person
/// can be asked about; `conflict` if something runs in a cell whose changes are to be discarded.
pub(crate) async fn prepare(
    site: &Site,
    caller: &Caller,
    request: &mut Request,
) -> Result<Preparation> {
    // A call from code in a cell never counts as the person's own.
    if !request.needs_person() || (caller.is_local_operator() && caller.depth == 0) {
        return Ok(Preparation::Ready);
    }
    if let Request::ProjectApply(apply) = request {
        return prepare_apply(site, caller, apply).await;
    }
    if let Request::ProjectDiscard(discard) = request {
        return prepare_discard(site, caller, discard).await;
    }
    Err(Error::internal("a request needs approval, and no question exists for it"))
}

async fn prepare_apply(
    site: &Site,
    caller: &Caller,
    apply: &mut ProjectApply,
) -> Result<Preparation> {
    if apply.drifted == DriftedFiles::Replace {
        return Err(Error::denied("only the user may overwrite files that changed meanwhile")
            .hint("let the user run `hotcell apply --force` in the project"));
    }
    apply.drifted = DriftedFiles::Skip;
    let diff = ProjectDiff {
        leave_out_ignored: apply.leave_out_ignored,
        ..whole_diff(&apply.cell, &apply.paths, PlanFor::Apply)
    };
    let (found, plan) = plan(site, &diff).await?;
    let ProjectChanges { dir, changes, .. } = &found;
    if changes.is_empty() {
        let ProjectPlan { held_back, conflicts, .. } = plan;
        let done = ProjectApplied { dir: dir.clone(), applied: Vec::new(), held_back, conflicts };
        return Ok(Preparation::Nothing(Box::new(Reply::ProjectApplied(done))));
    }
    let guarded: Vec<&ProjectChange> =
        changes.iter().filter(|change| change.guarded.is_some()).collect();
    if guarded.len() > MOST_GUARDED {
        return Err(Error::limit_exceeded(format!(
            "{} of the named paths could make the user's machine run something, and one call may \
             apply {MOST_GUARDED} of them",
            guarded.len()
        ))
        .hint("name fewer of them at a time, or let the user run `hotcell apply`"));
    }
    let mut facts = vec![fact("project", dir.display().to_string())];
    if !guarded.is_empty() {
        let why = |change: &&ProjectChange| change.guarded.clone().unwrap_or_default();
        for change in &guarded {
            let shown = format!("{} ({})", line(change), why(change));
            facts.extend(in_pieces("CAN MAKE THIS MACHINE RUN SOMETHING", &shown));
        }
    }
    facts.extend(of_changes("apply", &found)?);
    if !found.ignored.is_empty() {
        facts.extend(in_pieces("not applied, ignored by git", &lines(&found.ignored)));
    }
    if !plan.conflicts.is_empty() {
        let name = "not applied, changed by you meanwhile";
        facts.extend(in_pieces(name, &first_of(&plan.conflicts)));
    }
    if !plan.held_back.is_empty() {
        let name = "not applied, could make this machine run something";
        facts.extend(in_pieces(name, &first_of(&plan.held_back)));
    }
    apply.expected = Some(plan.digest);
    let mut reason = format!("changes {} in {}", few(changes), dir.display());
    for (left_out, why) in [(&plan.conflicts, "conflicts"), (&plan.held_back, "only if named")] {
        if !left_out.is_empty() {
            reason.push_str(&format!("; not applied ({why}): {}", few(left_out)));
        }
    }
    if chars_in(&facts) > SHOWN_CHARS {
        return Err(too_long(changes.len()));
    }
    need(site, caller, &apply.cell, reason, facts).await
}

async fn prepare_discard(
    site: &Site,
    caller: &Caller,
    discard: &mut ProjectDiscard,
) -> Result<Preparation> {
    // Ignored files are listed by their topmost directory, without their content.
    let diff = ProjectDiff {
        leave_out_ignored: true,
        ..whole_diff(&discard.cell, &discard.paths, PlanFor::Discard)
    };
    let (found, plan) = plan(site, &diff).await?;
    let ProjectChanges { dir, changes, ignored, .. } = &found;
    if changes.is_empty() && ignored.is_empty() {
        let done = ProjectDiscarded { dir: dir.clone(), discarded: Vec::new() };
        return Ok(Preparation::Nothing(Box::new(Reply::ProjectDiscarded(done))));
    }
    check_nothing_runs(site, &discard.cell).await?;
    let mut facts = vec![fact("project", dir.display().to_string())];
    facts.extend(of_changes("discard", &found)?);
    if !ignored.is_empty() {
        facts.extend(in_pieces("discard, ignored by git", &lines(ignored)));
    }
    discard.expected = Some(plan.digest);
    let what = match changes.is_empty() {
        true => format!(
            "files that git ignores ({})",
            bounded(&in_line(&ignored.join(", ")), MOST_CHARS)
        ),
        false => few(changes),
    };
    let reason = format!("throws away the cell's work on {what} in {}", dir.display());
    if chars_in(&facts) > SHOWN_CHARS {
        return Err(too_long(changes.len()));
    }
    need(site, caller, &discard.cell, reason, facts).await
}

/// Refuses to ask a person for what would fail once they have approved it.
async fn check_nothing_runs(site: &Site, cell: &CellRef) -> Result<()> {
    let cell = site.get_cell(cell).await?.spec.id;
    site.settle(&cell).await?;
    match site.live_execs(&cell).await?.first() {
        None => Ok(()),
        Some(exec) => Err(Error::conflict(format!(
            "exec {} runs in the cell, so its changes cannot be discarded",
            exec.id
        ))
        .hint("wait until it has ended, or end it with exec_cancel")),
    }
}

/// All that one question can show.
fn whole_diff(cell: &CellRef, paths: &ProjectPaths, plan_for: PlanFor) -> ProjectDiff {
    ProjectDiff {
        cell: cell.clone(),
        paths: paths.clone(),
        limit: MOST_CHANGES,
        skip: 0,
        patch_bytes: PATCH_BYTES,
        plan: Some(plan_for),
        leave_out_ignored: false,
    }
}

/// What would be done, by its digest.
async fn plan(site: &Site, diff: &ProjectDiff) -> Result<(ProjectChanges, ProjectPlan)> {
    let cell = &diff.cell;
    let stored = site.get_cell(cell).await?;
    let projects = site.projects_of(&stored)?;
    // Nothing in the cell may change between the digest and what is shown.
    let held = match site.hold_still(cell, Running::Spared).await {
        Err(error) if error.code == ErrorCode::Conflict => {
            site.hold_still(cell, Running::Frozen).await?
        }
        held => held?,
    };
    let found = projects.diff(&stored.spec.id, diff).await;
    held.release().await;
    let mut found = found?;
    if found.truncated {
        return Err(Error::limit_exceeded(format!(
            "there are more than {MOST_CHANGES} changes, which is more than a person can approve"
        ))
        .hint("name `paths`, or let the user run `hotcell apply` or `hotcell discard`"));
    }
    let plan = found.plan.take();
    let plan = plan.ok_or_else(|| Error::internal("the driver made no plan of the changes"))?;
    Ok((found, plan))
}

async fn need(
    site: &Site,
    caller: &Caller,
    cell: &CellRef,
    reason: String,
    facts: Vec<AskedFact>,
) -> Result<Preparation> {
    Ok(Preparation::Approval(ApprovalNeed {
        rule: RULE.to_owned(),
        reason,
        asked_by: caller.principal.clone(),
        within_ms: site.rules.as_ref().map_or(WITHIN_MS, |rules| rules.ask_within_ms),
        parts: Vec::new(),
        facts: asked::covered(site, Some(cell), facts).await?,
    }))
}

/// All changes and their whole patch.
///
/// # Errors
/// `limit_exceeded` if a person cannot be shown all of it.
fn of_changes(verb: &str, found: &ProjectChanges) -> Result<Vec<AskedFact>> {
    let ProjectChanges { changes, patch, patch_truncated, .. } = found;
    let list = changes.iter().map(line).collect::<Vec<_>>().join("\n");
    if *patch_truncated {
        return Err(too_long(changes.len()));
    }
    let is_text =
        |line: &&str, sign: char, head: &str| line.starts_with(sign) && !line.starts_with(head);
    let added = patch.lines().filter(|line| is_text(line, '+', "+++ ")).count();
    let removed = patch.lines().filter(|line| is_text(line, '-', "--- ")).count();
    let size = format!("{}, {added} lines added, {removed} removed", counted(changes.len()));
    let mut facts = in_pieces(verb, &list);
    facts.push(fact("size", size));
    facts.extend(in_pieces("diff", patch));
    Ok(facts)
}

fn chars_in(facts: &[AskedFact]) -> usize {
    facts.iter().map(|fact| fact.value.chars().count()).sum()
}

fn too_long(changes: usize) -> Error {
    Error::limit_exceeded(format!("the diff of {} is too long to be approved", counted(changes)))
        .hint(
            "name fewer `paths`, or ask the user to review the changes with `hotcell diff` and to \
             run `hotcell apply` or `hotcell discard` in the project directory",
        )
}

/// A long text as several facts, each short enough to be shown whole.
fn in_pieces(name: &str, text: &str) -> Vec<AskedFact> {
    let mut facts = Vec::new();
    let mut piece = String::new();
    let mut chars = 0;
    for line in text.split_inclusive('\n') {
        for part in split_long(line) {
            let length = part.chars().count();
            if chars + length > FACT_CHARS {
                facts.push(fact(name, std::mem::take(&mut piece)));
                chars = 0;
            }
            piece.push_str(&part);
            chars += length;
        }
    }
    if !piece.is_empty() {
        facts.push(fact(name, piece));
    }
    facts
}

fn split_long(line: &str) -> Vec<String> {
    let chars: Vec<char> = line.chars().collect();
    chars.chunks(FACT_CHARS).map(|part| part.iter().collect()).collect()
}

/// Changes that are not part of what is approved, the first of them.
fn first_of(changes: &[ProjectChange]) -> String {
    const MOST_LISTED: usize = 30;
    let mut lines: Vec<String> = changes.iter().take(MOST_LISTED).map(line).collect();
    let more = changes.len().saturating_sub(MOST_LISTED);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}

fn line(change: &ProjectChange) -> String {
    let letter = match change.change {
        ChangeKind::Added => 'A',
        ChangeKind::Changed => 'M',
        ChangeKind::Removed => 'D',
    };
    format!("{letter} {}{}", in_line(&change.path), if change.directory { "/" } else { "" })
}

fn lines(paths: &[String]) -> String {
    paths.iter().map(|path| in_line(path)).collect::<Vec<_>>().join("\n")
}

/// A name with line breaks must not look like several.
fn in_line(path: &str) -> String {
    path.chars().fold(String::new(), |mut path, char| {
        match char.is_control() {
            true => path.extend(char.escape_default()),
            false => path.push(char),
        }
        path
    })
}

/// How many changes there are, and the first of them.
fn few(changes: &[ProjectChange]) -> String {
    const MOST_NAMED: usize = 5;
    let named = changes.iter().take(MOST_NAMED).map(|change| bounded(&line(change), MOST_CHARS));
    let named: Vec<String> = named.collect();
    let more = if changes.len() > MOST_NAMED { ", …" } else { "" };
    format!("{} ({}{more})", counted(changes.len()), named.join(", "))
}

fn counted(changes: usize) -> String {
    if changes == 1 { "1 path".to_owned() } else { format!("{changes} paths") }
}

fn fact(name: &str, value: String) -> AskedFact {
    AskedFact { name: name.to_owned(), value }
}
