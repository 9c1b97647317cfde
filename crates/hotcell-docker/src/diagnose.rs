//! What a Docker engine has that cells need.

use hotcell_jail::process::Confinement;
use hotcell_model::{Check, CheckStatus, Diagnosis, Error, Isolation};

use crate::disk::{Measured, measures};
use crate::docker_host::DockerHost;
use crate::driver::DockerDriver;
use crate::engine_address::EngineSettings;
use crate::engines::Engines;
use crate::isolation;

/// Looks at every engine.
pub(crate) async fn diagnose(engines: &Engines) -> Diagnosis {
    let driver = DockerDriver::NAME.to_owned();
    let all = match engines.all() {
        Ok(all) => all,
        Err(error) => return Diagnosis { driver, checks: vec![missing(&error)], isolation: None },
    };
    let mut checks = Vec::new();
    let mut isolation: Option<Isolation> = None;
    for engine in all {
        match engine.reach().await {
            Ok(host) => {
                checks.extend(found(&host));
                // The least that a new cell has.
                let here = isolation_at(&host);
                isolation = Some(match isolation {
                    Some(least) if least.missing.len() >= here.missing.len() => least,
                    Some(_) | None => here,
                });
            }
            Err(error) => checks.push(missing(&error)),
        }
    }
    Diagnosis { driver, checks, isolation }
}

/// Cells can do without an engine: the native driver needs none.
fn missing(error: &Error) -> Check {
    Check {
        name: "Docker engine".to_owned(),
        status: CheckStatus::Missing,
        detail: error.message.clone(),
        remedy: error.hint.clone(),
    }
}

fn found(host: &DockerHost) -> Vec<Check> {
    let info = &host.info;
    let fact = |name: &str, detail: String| Check {
        name: name.to_owned(),
        status: CheckStatus::Info,
        detail,
        remedy: None,
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut checks = vec![
        Check {
            name: "Docker engine".to_owned(),
            status: CheckStatus::Ok,
            detail: told(host, &text(&info.server_version)),
            remedy: None,
        },
        fact("storage", text(&info.driver)),
        fact("runtime", text(&info.default_runtime)),
    ];
    let warnings = info.warnings.iter().flatten();
    checks.extend(warnings.map(|warning| fact("warning", warning.trim().to_owned())));
    checks
}

/// An engine by what it is called and where it is, with what the configuration says of one of several.
fn told(host: &DockerHost, version: &str) -> String {
    let settings = host.settings();
    let at = format!("{version} at {}", settings.address);
    if settings.name == EngineSettings::DEFAULT {
        return at;
    }
    let labels = settings.labels.iter().map(|(label, value)| format!(", {label}={value}"));
    let labels = labels.collect::<String>();
    format!("{}: {at}, weight {}{labels}", settings.name, settings.weight)
}

/// The isolation that a cell would have there.
pub(crate) fn isolation_at(host: &DockerHost) -> Isolation {
    isolation::describe(
        host,
        &Confinement::expected_in_container(),
        measures(host).unwrap_or(Measured::No),
    )
}
