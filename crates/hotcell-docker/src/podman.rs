//! Where the engine is Podman: what it wants otherwise than Docker.

use std::fs;
use std::io;
use std::path::Path;

use bollard::models::{ContainerCreateBody, ResourcesUlimits, SystemVersion};
use hotcell_model::{Error, Result};
use rustix::process::{Resource, getrlimit};

use crate::docker_host::DockerHost;

/// What a process in a container may have at most; what all of them may is the cell's limit.
const MOST_FILES: i64 = 1 << 20;
const MOST_PROCESSES: i64 = 32_768;
const SECCOMP: &str = "seccomp=";

/// Whether an engine says that it is Podman.
pub(crate) fn is_podman(version: &SystemVersion) -> bool {
    let mut components = version.components.iter().flatten();
    components.any(|component| component.name.starts_with("Podman"))
}

/// Whether cells can be at an engine of another machine.
///
/// # Errors
/// `unsupported` for Podman, which would look for the filter of a container over there.
pub(crate) fn check_here(host: &DockerHost) -> Result<()> {
    match host.is_podman {
        false => Ok(()),
        true => Err(Error::unsupported(format!(
            "the engine {} is Podman on another machine, and cells need a Podman of this one",
            host.address
        ))
        .hint("run hotcell where that Podman is, or use a Docker engine over there")),
    }
}

/// Says the same of a container in the words of Podman, with its filter in a file.
pub(crate) fn translate(body: &mut ContainerCreateBody, file: &Path) -> io::Result<()> {
    // What is removed is ended at once; whoever is to end in peace is told by the supervisor.
    body.stop_timeout = Some(0);
    let Some(config) = body.host_config.as_mut() else { return Ok(()) };
    for options in config.tmpfs.iter_mut().flat_map(|places| places.values_mut()) {
        *options = in_memory(options);
    }
    // Where they are not said it raises them, which not every root may.
    let said =
        [("nofile", Resource::Nofile, MOST_FILES), ("nproc", Resource::Nproc, MOST_PROCESSES)];
    config.ulimits.get_or_insert_default().extend(said.map(|(name, kind, most)| {
        let own = getrlimit(kind).maximum.and_then(|own| i64::try_from(own).ok());
        let limit = Some(own.map_or(most, |own| own.min(most)));
        ResourcesUlimits { name: Some(name.to_owned()), soft: limit, hard: limit }
    }));
    for option in config.security_opt.iter_mut().flatten() {
        if let Some(profile) = option.strip_prefix(SECCOMP) {
            fs::write(file, profile)?;
            *option = format!("{SECCOMP}{}", file.display());
        }
    }
    Ok(())
}

/// A place in memory has no owner and no bound on its files there, which count as memory; whoever is in
/// the container is one user.
fn in_memory(options: &str) -> String {
    let has_owner = options.split(',').any(|option| option.starts_with("uid="));
    let known = options.split(',').filter_map(|option| match option.split_once('=') {
        Some(("uid" | "gid" | "nr_inodes", _)) => None,
        Some(("mode", _)) if has_owner => Some("mode=1777"),
        Some(_) | None => Some(option),
    });
    known.chain(["notmpcopyup"]).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bollard::models::HostConfig;

    use super::*;

    #[test]
    fn what_docker_is_told_is_said_in_the_words_of_podman() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("filter.json");
        let options = "rw,nosuid,nodev,noexec,mode=755,uid=1000,gid=1000,size=8,nr_inodes=1024";
        let mut body = ContainerCreateBody {
            host_config: Some(HostConfig {
                tmpfs: Some(HashMap::from([("/run".to_owned(), options.to_owned())])),
                security_opt: Some(vec![
                    "no-new-privileges:true".to_owned(),
                    "seccomp={\"a\":1}".to_owned(),
                ]),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        };
        translate(&mut body, &file).expect("a file");
        let config = body.host_config.expect("a configuration");
        let places = config.tmpfs.expect("places in memory");
        assert_eq!(places["/run"], "rw,nosuid,nodev,noexec,mode=1777,size=8,notmpcopyup");
        assert_eq!(fs::read_to_string(&file).expect("a filter"), "{\"a\":1}");
        let security = config.security_opt.expect("options");
        assert_eq!(security[0], "no-new-privileges:true");
        assert_eq!(security[1], format!("seccomp={}", file.display()));
        let limits = config.ulimits.expect("limits");
        let named: Vec<&str> = limits.iter().filter_map(|it| it.name.as_deref()).collect();
        assert_eq!(named, ["nofile", "nproc"]);
    }
}
