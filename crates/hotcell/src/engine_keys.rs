//! What the configuration says of several Docker engines: `[docker.engines.NAME]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hotcell_docker::{EngineAddress, EngineSettings, PlainTcp};
use hotcell_model::{Error, Result};
use serde_json::Value;

use crate::config::Config;
use crate::config_keys::list;
use crate::environment::Environment;
use crate::values;

const TABLE: &str = "docker.engines.";
const MOST_WEIGHT: u32 = 1000;
const MOST_NAME: usize = 32;

/// What is said of one engine, as far as it is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EngineConfig {
    host: Option<EngineAddress>,
    weight: u32,
    labels: BTreeMap<String, String>,
    tls_dir: Option<PathBuf>,
    plain_tcp: PlainTcp,
    ssh_config: Option<PathBuf>,
    network: Option<String>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            host: None,
            weight: 1,
            labels: BTreeMap::new(),
            tls_dir: None,
            plain_tcp: PlainTcp::default(),
            ssh_config: None,
            network: None,
        }
    }
}

/// One key of an engine.
pub(crate) struct EngineKey {
    /// Its name in the engine's table.
    pub(crate) name: &'static str,
    /// What it means.
    pub(crate) about: &'static str,
    set: fn(&mut EngineConfig, &str) -> Result<(), String>,
    get: fn(&EngineConfig) -> Option<Value>,
}

/// Every key there is; the page on Docker has the same.
pub(crate) const ENGINE_KEYS: &[EngineKey] = &[
    EngineKey {
        name: "host",
        about: "where it is: unix:///PATH, tcp://HOST:PORT, https://HOST:PORT or \
                ssh://USER@HOST:PORT; it has to be said",
        set: |engine, text| {
            engine.host = Some(text.parse().map_err(|error: Error| error.message)?);
            Ok(())
        },
        get: |engine| engine.host.as_ref().map(|host| host.to_string().into()),
    },
    EngineKey {
        name: "weight",
        about: "how much of the new cells it gets beside the others; 1 unless given, 0 for none",
        set: |engine, text| {
            let weight = text.trim().parse().ok().filter(|weight| *weight <= MOST_WEIGHT);
            engine.weight = weight.ok_or(format!("it is no number from 0 to {MOST_WEIGHT}"))?;
            Ok(())
        },
        get: |engine| Some(engine.weight.into()),
    },
    EngineKey {
        name: "labels",
        about: "what `--on` chooses it by, each LABEL=VALUE; `engine` is its name already",
        set: |engine, text| {
            let labels = list(text).iter().map(|it| values::label(it)).collect::<Result<_, _>>()?;
            engine.labels = labels;
            match engine.labels.contains_key("engine") {
                true => Err("the label `engine` is its name".to_owned()),
                false => Ok(()),
            }
        },
        get: |engine| {
            let labels = engine.labels.iter().map(|(label, value)| format!("{label}={value}"));
            let labels = labels.collect::<Vec<_>>().join(",");
            Some(labels.into()).filter(|_| !engine.labels.is_empty())
        },
    },
    EngineKey {
        name: "tls_dir",
        about: "the directory of ca.pem, cert.pem and key.pem by which it is spoken to over TLS",
        set: |engine, text| {
            engine.tls_dir = Some(absolute(text)?);
            Ok(())
        },
        get: |engine| engine.tls_dir.as_ref().map(|path| path.display().to_string().into()),
    },
    EngineKey {
        name: "insecure",
        about: "whether it may be reached over a network without TLS, where whoever reaches it is \
                root; false unless given",
        set: |engine, text| {
            engine.plain_tcp = match text {
                "true" => PlainTcp::Allowed,
                "false" => PlainTcp::Refused,
                _ => return Err("it is neither true nor false".to_owned()),
            };
            Ok(())
        },
        get: |engine| (engine.plain_tcp == PlainTcp::Allowed).then_some(true.into()),
    },
    EngineKey {
        name: "ssh_config",
        about: "what `ssh` reads instead of the user's configuration",
        set: |engine, text| {
            engine.ssh_config = Some(absolute(text)?);
            Ok(())
        },
        get: |engine| engine.ssh_config.as_ref().map(|path| path.display().to_string().into()),
    },
    EngineKey {
        name: "network",
        about: "the network by which one on another machine carries connections of its cells; that of \
                docker.network unless given",
        set: |engine, text| {
            engine.network = Some(text.to_owned());
            Ok(())
        },
        get: |engine| engine.network.clone().map(Value::from),
    },
];

/// A path that means the same wherever it is read: the process that shows cells here is in no directory.
pub(crate) fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.is_absolute() {
        true => Ok(path),
        false => Err("it is no path from / on".to_owned()),
    }
}

/// The engines of the configuration, by name.
pub(crate) type EngineTable = BTreeMap<String, EngineConfig>;

/// Takes `docker.engines.NAME.KEY`; whether it was one of them.
///
/// # Errors
/// `invalid` for a name that no engine can have, a key that there is not, or a value that it cannot
/// have.
pub(crate) fn take(table: &mut EngineTable, name: &str, value: &str) -> Result<bool> {
    let Some(rest) = name.strip_prefix(TABLE) else { return Ok(false) };
    let known = || ENGINE_KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ");
    let (engine, key) = rest.split_once('.').unwrap_or((rest, ""));
    let key = ENGINE_KEYS.iter().find(|known| known.name == key).ok_or_else(|| {
        Error::invalid(format!("the key {name:?} means nothing to hotcell"))
            .hint(format!("[{TABLE}{engine}] has {}", known()))
    })?;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if engine.is_empty() || engine.len() > MOST_NAME || !engine.bytes().all(is_plain) {
        return Err(Error::invalid(format!("{engine:?} is no name of a Docker engine"))
            .hint(format!("a name has up to {MOST_NAME} of a-z, 0-9 and -")));
    }
    let said = table.entry(engine.to_owned()).or_default();
    (key.set)(said, value).map_err(|problem| {
        Error::invalid(format!("{name} cannot be {value:?}: {problem}"))
            .hint(format!("{} is {}", key.name, key.about))
    })?;
    Ok(true)
}

/// Every key that is said, with its value.
pub(crate) fn entries(table: &EngineTable) -> impl Iterator<Item = (String, Value)> {
    table.iter().flat_map(|(engine, said)| {
        let shown =
            |key: &EngineKey| Some((format!("{TABLE}{engine}.{}", key.name), (key.get)(said)?));
        ENGINE_KEYS.iter().filter_map(shown).collect::<Vec<_>>()
    })
}

/// Checks what is said of engines together.
///
/// # Errors
/// `invalid` where two ways of saying which engine there is are used, or an engine has no address.
pub(crate) fn check(config: &Config) -> Result<()> {
    let engines = &config.docker.engines;
    let says_one = !config.docker.host.is_empty() || !config.docker.tls_dir.is_empty();
    if says_one && !engines.is_empty() {
        return Err(Error::invalid(
            "docker.host or docker.tls_dir is said, and docker.engines too: they are two ways of \
             saying which engines there are",
        )
        .hint("say docker.host for one engine, or [docker.engines.NAME] for each of several"));
    }
    match engines.iter().find(|(_, engine)| engine.host.is_none()) {
        None => Ok(()),
        Some((name, _)) => Err(Error::invalid(format!("{TABLE}{name}.host is not said"))
            .hint("say where the engine is, such as ssh://USER@HOST")),
    }
}

/// The engines of the configuration: those that it names, or the one that it says, or else that of
/// clients of Docker.
///
/// # Errors
/// `invalid` for an address that is none.
pub(crate) fn engines(config: &Config, environment: &Environment) -> Result<Vec<EngineSettings>> {
    let nameservers = &config.egress.nameservers;
    let docker = &config.docker;
    let network = |said: Option<&String>| {
        let said = said.unwrap_or(&docker.network);
        if said.is_empty() { EngineSettings::USUAL_NETWORK.to_owned() } else { said.clone() }
    };
    if !docker.engines.is_empty() {
        let named = docker.engines.iter().map(|(name, said)| EngineSettings {
            weight: said.weight,
            labels: said.labels.clone(),
            tls_dir: said.tls_dir.clone(),
            plain_tcp: said.plain_tcp,
            ssh_config: said.ssh_config.clone(),
            network: network(said.network.as_ref()),
            ssh_environment: environment.ssh_variables(),
            nameservers: nameservers.clone(),
            ..EngineSettings::new(name, said.host.clone().unwrap_or_default())
        });
        return Ok(named.collect());
    }
    let said = Some(&docker.host).filter(|text| !text.is_empty());
    let address = match said.or(environment.docker_host.as_ref()) {
        Some(text) => text.parse()?,
        None => EngineAddress::usual(),
    };
    let tls_dir = Some(&docker.tls_dir).filter(|text| !text.is_empty()).map(PathBuf::from);
    Ok(vec![EngineSettings {
        tls_dir: tls_dir.or_else(|| environment.docker_certificates()),
        network: network(None),
        ssh_environment: environment.ssh_variables(),
        nameservers: nameservers.clone(),
        ..EngineSettings::new(EngineSettings::DEFAULT, address)
    }])
}
