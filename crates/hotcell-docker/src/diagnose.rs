//! What a Docker engine has that cells need.

use hotcell_jail::process::Confinement;
use hotcell_model::{Check, CheckStatus, Diagnosis, Error};

use crate::disk::{Measured, measures};
use crate::docker_host::DockerHost;
use crate::driver::DockerDriver;
use crate::isolation;

/// Looks at everything.
pub(crate) fn diagnose(found: Result<&DockerHost, &Error>) -> Diagnosis {
    let driver = DockerDriver::NAME.to_owned();
    let host = match found {
        Ok(host) => host,
        Err(error) => {
            // Cells can do without an engine: the native driver needs none.
            let check = Check {
                name: "Docker engine".to_owned(),
                status: CheckStatus::Missing,
                detail: error.message.clone(),
                remedy: error.hint.clone(),
            };
            return Diagnosis { driver, checks: vec![check], isolation: None };
        }
    };
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
            detail: format!("{} at {}", text(&info.server_version), host.address),
            remedy: None,
        },
        fact("storage", text(&info.driver)),
        fact("runtime", text(&info.default_runtime)),
    ];
    let warnings = info.warnings.iter().flatten();
    checks.extend(warnings.map(|warning| fact("warning", warning.trim().to_owned())));
    let isolation = Some(isolation::describe(
        host,
        &Confinement::expected_in_container(),
        measures(host).unwrap_or(Measured::No),
    ));
    Diagnosis { driver, checks, isolation }
}
