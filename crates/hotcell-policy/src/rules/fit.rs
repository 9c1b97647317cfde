//! Whether the conditions of a rule hold for something that was found.

use super::glob::{Fit, Glob};
use super::{Conditions, Decision, OnDynamic, OnNetwork, Rule};
use crate::finding::{Dynamic, Finding, Kind, Known, Touch, Touched, Value};
use crate::walk::GIT_VALUES;

/// Programs in these directories are what their names say.
const SYSTEM: &[&str] =
    &["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin"];

/// Whether a rule decides about a finding.
pub(crate) fn fits(rule: &Rule, finding: &Finding) -> bool {
    let fit = fit(rule, finding);
    match rule.decision {
        Decision::Allow => fit == Fit::Yes,
        Decision::Ask | Decision::Deny => fit == Fit::Yes || (fit == Fit::Maybe && rule.on_unknown),
    }
}

fn fit(rule: &Rule, finding: &Finding) -> Fit {
    let conditions = &rule.conditions;
    let mut fit = Fit::Yes;
    let mut and = |one: Fit| {
        fit = fit.min(one);
        fit != Fit::No
    };
    // What cannot be known is allowed only by a rule that says so.
    if rule.decision == Decision::Allow
        && conditions.dynamic.is_none()
        && finding.dynamic.iter().any(|kind| !conditions.tolerates.contains(kind))
    {
        return Fit::No;
    }
    let plain = and(of_kind(rule, finding))
        && and(of_flags(conditions, finding))
        && and(on_command(rule, finding))
        && and(on_arguments(conditions, finding))
        && and(on_dynamic(conditions, finding))
        && and(on_network(rule, finding))
        && and(on_paths(rule, finding));
    if plain { fit } else { Fit::No }
}

/// Conditions that only some kinds of findings can meet.
fn of_kind(rule: &Rule, finding: &Finding) -> Fit {
    let conditions = &rule.conditions;
    let by_name = [
        (&conditions.image, Kind::Image),
        (&conditions.egress, Kind::Egress),
        (&conditions.secret, Kind::Secret),
        (&conditions.tool, Kind::Tool),
        (&conditions.imports, Kind::Import),
        (&conditions.calls, Kind::Call),
    ];
    for (globs, kind) in by_name {
        let Some(globs) = globs else { continue };
        let named = finding.name.as_deref().unwrap_or_default();
        let found = finding.kind == kind
            && globs.iter().any(|glob| {
                if kind == Kind::Egress {
                    fits_egress(glob, named, rule.decision)
                } else if kind == Kind::Image {
                    fits_image(glob, finding, rule.decision)
                } else {
                    fits_module(glob, named, kind)
                }
            });
        // What code of another language imports and calls nobody looks at: no rule lets it pass.
        let unread = finding.kind == Kind::Text
            && finding.dynamic.contains(&Dynamic::Language)
            && matches!(kind, Kind::Import | Kind::Call);
        if unread && rule.decision != Decision::Allow {
            continue;
        }
        if !found {
            return Fit::No;
        }
    }
    Fit::Yes
}

/// `*.corp:8443/raw` is a rule for the network. One that allows it has to name all of that; one that
/// denies or asks fits if it names any host that is meant, with or without the port.
fn fits_egress(glob: &Glob, rule: &str, decision: Decision) -> bool {
    if decision == Decision::Allow {
        return glob.fits_text(rule);
    }
    let inspected = rule.strip_suffix("/raw").unwrap_or(rule);
    let host = inspected.split(':').next().unwrap_or_default();
    [rule, inspected, host].into_iter().any(|text| {
        let known = if text.starts_with('*') { Known::Partly } else { Known::Fully };
        glob.fits(&Value { text: text.to_owned(), known }) != Fit::No
    })
}

/// An image has more names than the one by which it was asked for.
fn fits_image(glob: &Glob, finding: &Finding, decision: Decision) -> bool {
    let fits = |name: &String| glob.fits_text(name);
    finding.name.iter().chain(&finding.same).any(fits)
        || decision != Decision::Allow && finding.related.iter().any(fits)
}

/// `os` as an import is also `os.path`.
fn fits_module(glob: &Glob, name: &str, kind: Kind) -> bool {
    if glob.fits_text(name) {
        return true;
    }
    kind == Kind::Import
        && name
            .match_indices('.')
            .any(|(at, _)| name.get(..at).is_some_and(|head| glob.fits_text(head)))
}

fn of_flags(conditions: &Conditions, finding: &Finding) -> Fit {
    let pairs = [
        (conditions.destructive, finding.destructive && !writes_besides(conditions, finding)),
        (conditions.overwrites, finding.overwrites),
        (conditions.as_root, finding.as_root),
        (conditions.fork_bomb, finding.fork_bomb),
        (conditions.direct, finding.via.is_empty()),
    ];
    let holds = pairs.iter().all(|(wanted, given)| wanted.is_none_or(|wanted| wanted == *given));
    let via = conditions.via.as_ref().is_none_or(|globs| {
        globs.iter().any(|glob| finding.via.iter().any(|name| glob.fits_text(name)))
    });
    let sets = conditions.sets.as_ref().is_none_or(|globs| {
        globs.iter().any(|glob| finding.sets.iter().any(|name| glob.fits_text(name)))
    });
    Fit::when(holds && via && sets)
}

/// Whether something is removed and something else written, which a rule about writing alone is asked about.
fn writes_besides(conditions: &Conditions, finding: &Finding) -> bool {
    conditions.destructive == Some(false)
        && conditions.writes.is_some()
        && finding.touches.iter().any(is_write)
}

fn is_write(touch: &Touched) -> bool {
    match touch.how {
        Touch::Overwrite | Touch::Write => true,
        Touch::Remove | Touch::Tree => false,
    }
}

fn on_command(rule: &Rule, finding: &Finding) -> Fit {
    let Some(names) = &rule.conditions.command else {
        return Fit::Yes;
    };
    if finding.kind != Kind::Command {
        return Fit::No;
    }
    let Some(name) = &finding.name else {
        return Fit::Maybe;
    };
    let elsewhere = finding.path.as_ref().is_some_and(|path| {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        !SYSTEM.contains(&directory)
    });
    // A file that only has the name of a program is not that program.
    let trusted = rule.decision != Decision::Allow || !elsewhere;
    let fits = (trusted && names.has(name))
        || names.globs().iter().any(|glob| {
            if glob.text().contains('/') {
                return finding.path.as_ref().is_some_and(|path| glob.fits_text(path));
            }
            (trusted || glob.text() == "*") && glob.fits_text(name)
        });
    if fits {
        Fit::Yes
    } else if finding.dynamic.contains(&Dynamic::Environment) {
        Fit::Maybe
    } else {
        Fit::No
    }
}

fn on_arguments(conditions: &Conditions, finding: &Finding) -> Fit {
    let best = |glob: &Glob| finding.args.iter().map(|arg| glob.fits(arg)).max().unwrap_or(Fit::No);
    let mut fit = Fit::Yes;
    if let Some(flags) = &conditions.flags {
        for names in flags {
            fit = fit.min(has_option(&finding.args, names));
        }
    }
    if let Some(globs) = &conditions.args {
        fit = globs.iter().map(best).fold(fit, Fit::min);
    }
    if let Some(globs) = &conditions.args_any {
        fit = fit.min(globs.iter().map(best).max().unwrap_or(Fit::No));
    }
    if let Some(globs) = &conditions.args_first {
        let operands = operands(finding);
        for (index, glob) in globs.iter().enumerate() {
            fit = fit.min(operands.get(index).map_or(Fit::No, |operand| glob.fits(operand)));
        }
    }
    fit
}

/// Arguments that are no options. Options of git before its verb that take a value are left out with it.
fn operands(finding: &Finding) -> Vec<&Value> {
    let mut found = Vec::new();
    let git = finding.name.as_deref() == Some("git");
    let mut args = finding.args.iter();
    while let Some(arg) = args.next() {
        let text = arg.text.as_str();
        if git && found.is_empty() && GIT_VALUES.contains(&text) {
            args.next();
        } else if !text.starts_with('-') || text == "-" {
            found.push(arg);
        }
    }
    found
}

/// Whether an option is given under one of its names: letters stand in clusters, words may be shortened.
fn has_option(args: &[Value], names: &[String]) -> Fit {
    let mut fit = Fit::No;
    for arg in args {
        let text = arg.text.as_str();
        if text == "--" {
            break;
        }
        if arg.known == Known::Not {
            fit = fit.max(Fit::Maybe);
        }
        let given = names.iter().any(|name| {
            let mut letters = name.chars();
            let single = letters.next().is_some() && letters.next().is_none();
            match text.strip_prefix("--") {
                Some(given) => {
                    let given = given.split('=').next().unwrap_or_default();
                    !single && !given.is_empty() && name.starts_with(given)
                }
                None => text.strip_prefix('-').is_some_and(|cluster| {
                    if single { cluster.contains(name.as_str()) } else { cluster == name }
                }),
            }
        });
        if given {
            return Fit::Yes;
        }
    }
    fit
}

fn on_dynamic(conditions: &Conditions, finding: &Finding) -> Fit {
    match &conditions.dynamic {
        None => Fit::Yes,
        Some(OnDynamic::Any(wanted)) => Fit::when(*wanted != finding.dynamic.is_empty()),
        Some(OnDynamic::Kinds(kinds)) => {
            Fit::when(kinds.iter().any(|kind| finding.dynamic.contains(kind)))
        }
    }
}

fn on_network(rule: &Rule, finding: &Finding) -> Fit {
    match (&rule.conditions.network, &finding.network) {
        (None, _) => Fit::Yes,
        (Some(OnNetwork::Used(wanted)), used) => Fit::when(*wanted == used.is_some()),
        (Some(OnNetwork::Hosts(_)), None) => Fit::No,
        (Some(OnNetwork::Hosts(globs)), Some(hosts)) => {
            let best =
                |host: &Value| globs.iter().map(|glob| glob.fits(host)).max().unwrap_or(Fit::No);
            if hosts.is_empty() {
                return Fit::Maybe;
            }
            over_all(rule, hosts.iter().map(best))
        }
    }
}

/// To allow, all must fit; to ask or deny, one.
fn over_all(rule: &Rule, fits: impl Iterator<Item = Fit>) -> Fit {
    match rule.decision {
        Decision::Allow => fits.min().unwrap_or(Fit::No),
        Decision::Ask | Decision::Deny => fits.max().unwrap_or(Fit::No),
    }
}

fn on_paths(rule: &Rule, finding: &Finding) -> Fit {
    let conditions = &rule.conditions;
    let mut fit = Fit::Yes;
    if let Some(globs) = &conditions.redirects {
        if finding.kind != Kind::Redirect {
            return Fit::No;
        }
        fit = fit.min(touched(rule, globs, finding.touches.iter()));
    }
    if let Some(globs) = &conditions.writes {
        let counts = |touch: &&Touched| {
            !finding.destructive || conditions.destructive != Some(false) || is_write(touch)
        };
        fit = fit.min(touched(rule, globs, finding.touches.iter().filter(counts)));
    }
    if let Some(globs) = &conditions.writes_outside {
        let outside = |touch: &Touched| {
            globs.iter().map(|glob| glob.fits(&touch.path)).max().unwrap_or(Fit::No).not()
        };
        fit = fit.min(finding.touches.iter().map(outside).max().unwrap_or(Fit::No));
    }
    fit
}

fn touched<'f>(rule: &Rule, globs: &[Glob], touches: impl Iterator<Item = &'f Touched>) -> Fit {
    let best = |touch: &Touched| {
        let of = |glob: &Glob| {
            let direct = glob.fits(&touch.path);
            // Who removes a directory removes what the pattern names in it.
            let covered = match (touch.how, rule.decision) {
                (Touch::Tree, Decision::Ask | Decision::Deny) => glob.lies_below(&touch.path),
                (Touch::Tree, Decision::Allow)
                | (Touch::Remove | Touch::Overwrite | Touch::Write, _) => Fit::No,
            };
            direct.max(covered)
        };
        globs.iter().map(of).max().unwrap_or(Fit::No)
    };
    over_all(rule, touches.map(best))
}
