//! The keys of the configuration: how each is named, read and shown.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use hotcell_model::Error;
use hotcell_policy::{AllowedLines, Policy};
use hotcell_server::Collector;
use serde_json::Value;

use crate::auth_config::AUTH_KEYS;
use crate::config::{Config, LogFormat};
use crate::{
    code_keys, config_toolbox, driver_keys, image_keys, ledger_keys, serve_keys, upkeep_keys,
    values,
};

/// One key: its names, its default, what it means, how it is read and shown.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    /// Its name in a file; a dot stands for a table.
    pub(crate) name: &'static str,
    /// Its environment variable.
    pub(crate) variable: &'static str,
    /// What it is when nobody says anything.
    pub(crate) default: &'static str,
    /// What it means.
    pub(crate) about: &'static str,
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
    pub(crate) get: fn(&Config) -> Value,
}

/// Every key there is; the help and the reference page are made from this table.
pub(crate) const KEYS: &[Key] = &in_one::<{ FIRST.len() + AUTH_KEYS.len() }>(FIRST, AUTH_KEYS);

/// Two tables as one.
const fn in_one<const N: usize>(first: &[Key], then: &[Key]) -> [Key; N] {
    let mut all = [first[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() { first[at] } else { then[at - first.len()] };
        at += 1;
    }
    all
}

const FIRST: &[Key] = &[
    Key {
        name: "state_dir",
        variable: "HOTCELL_STATE_DIR",
        default: "$XDG_STATE_HOME/hotcell",
        about: "where cells, logs and the index are kept; without XDG_STATE_HOME \
                ~/.local/state/hotcell, for root without HOME /var/lib/hotcell",
        set: |config, text| {
            config.state_dir = PathBuf::from(text);
            Ok(())
        },
        get: |config| config.state_dir.display().to_string().into(),
    },
    Key {
        name: "log",
        variable: "HOTCELL_LOG",
        default: "warn",
        about: "what is logged to stderr: off, error, warn, info, debug, trace, or target=level,…",
        set: |config, text| {
            tracing_subscriber::EnvFilter::builder()
                .parse(text)
                .map_err(|error| format!("it is not a log filter: {error}"))?;
            config.log = text.to_owned();
            Ok(())
        },
        get: |config| config.log.clone().into(),
    },
    Key {
        name: "log_format",
        variable: "HOTCELL_LOG_FORMAT",
        default: "text",
        about: "how lines of the log look: text, json",
        set: |config, text| {
            config.log_format =
                choice(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)])?;
            Ok(())
        },
        get: |config| match config.log_format {
            LogFormat::Text => "text".into(),
            LogFormat::Json => "json".into(),
        },
    },
    Key {
        name: "tenant",
        variable: "HOTCELL_TENANT",
        default: "main",
        about: "whose cells are worked on, and whose a server's callers are unless their tokens say: \
                a name of a-z, 0-9 and -",
        set: |config, text| {
            config.tenant = text.parse().map_err(|error: Error| error.to_string())?;
            Ok(())
        },
        get: |config| config.tenant.as_str().into(),
    },
    driver_keys::DRIVER,
    Key {
        name: "sleep_after_s",
        variable: "HOTCELL_SLEEP_AFTER_S",
        default: "600",
        about: "seconds without a running exec after which a persistent cell falls asleep",
        set: |config, text| {
            config.sleep_after_s = values::whole_seconds(text)?;
            Ok(())
        },
        get: |config| config.sleep_after_s.into(),
    },
    Key {
        name: "orphan_grace_s",
        variable: "HOTCELL_ORPHAN_GRACE_S",
        default: "60",
        about: "seconds that an unnamed cell outlives the `hotcell run` that made it, if that is killed",
        set: |config, text| {
            config.orphan_grace_s = values::duration(text)?.as_secs();
            Ok(())
        },
        get: |config| config.orphan_grace_s.into(),
    },
    Key {
        name: "default_ttl_s",
        variable: "HOTCELL_DEFAULT_TTL_S",
        default: "604800",
        about: "seconds that a cell of `hotcell spawn` lasts unless told",
        set: |config, text| {
            config.default_ttl_s = values::whole_seconds(text)?;
            Ok(())
        },
        get: |config| config.default_ttl_s.into(),
    },
    Key {
        name: "log_keep_s",
        variable: "HOTCELL_LOG_KEEP_S",
        default: "86400",
        about: "seconds that the output of execs outlives their cell",
        set: |config, text| {
            config.log_keep_s = values::duration(text)?.as_secs();
            Ok(())
        },
        get: |config| config.log_keep_s.into(),
    },
    upkeep_keys::LOG_MB,
    upkeep_keys::VOLUME_KEEP,
    upkeep_keys::DISK_RESERVE,
    Key {
        name: "max_running",
        variable: "HOTCELL_MAX_RUNNING",
        default: "128",
        about: "execs that run at once in a cell; the rest queue",
        set: |config, text| {
            config.max_running = count(text, 4096)?;
            Ok(())
        },
        get: |config| config.max_running.into(),
    },
    Key {
        name: "output_mb",
        variable: "HOTCELL_OUTPUT_MB",
        default: "64",
        about: "MiB of output kept per exec: past it head and tail are kept, the middle is dropped",
        set: |config, text| {
            config.output_mb = count(text, 1 << 20)?.into();
            Ok(())
        },
        get: |config| config.output_mb.into(),
    },
    Key {
        name: "file_mb",
        variable: "HOTCELL_FILE_MB",
        default: "100",
        about: "MiB of content of files that one call of a tool takes or gives at most",
        set: |config, text| {
            config.file_mb = count(text, 1 << 20)?.into();
            Ok(())
        },
        get: |config| config.file_mb.into(),
    },
    Key {
        name: "admission.cells",
        variable: "HOTCELL_ADMISSION_CELLS",
        default: "1000",
        about: "cells that may have processes at once",
        set: |config, text| {
            config.admission.cells = count(text, 1 << 20)?;
            Ok(())
        },
        get: |config| config.admission.cells.into(),
    },
    Key {
        name: "admission.memory_mb",
        variable: "HOTCELL_ADMISSION_MEMORY_MB",
        default: "0",
        about: "MiB that the memory limits of all cells with processes may come to; 0 for any",
        set: |config, text| {
            config.admission.memory_mb = bound(text)?;
            Ok(())
        },
        get: |config| config.admission.memory_mb.unwrap_or_default().into(),
    },
    Key {
        name: "admission.cpus",
        variable: "HOTCELL_ADMISSION_CPUS",
        default: "0",
        about: "CPUs that the limits of all cells with processes may come to; 0 for any",
        set: |config, text| {
            config.admission.cpus = match text {
                "0" => None,
                text => Some(values::cpus(text)?),
            };
            Ok(())
        },
        get: |config| config.admission.cpus.unwrap_or_default().into(),
    },
    Key {
        name: "admission.pids",
        variable: "HOTCELL_ADMISSION_PIDS",
        default: "0",
        about: "processes that the limits of all cells with processes may come to; 0 for any",
        set: |config, text| {
            config.admission.pids = bound(text)?;
            Ok(())
        },
        get: |config| config.admission.pids.unwrap_or_default().into(),
    },
    Key {
        name: "admission.disk_mb",
        variable: "HOTCELL_ADMISSION_DISK_MB",
        default: "0",
        about: "MiB that the disk limits of all cells may come to, those asleep included; 0 for any",
        set: |config, text| {
            config.admission.disk_mb = bound(text)?;
            Ok(())
        },
        get: |config| config.admission.disk_mb.unwrap_or_default().into(),
    },
    Key {
        name: "admission.execs",
        variable: "HOTCELL_ADMISSION_EXECS",
        default: "0",
        about: "execs that may run or be queued at once in all cells; 0 for any",
        set: |config, text| {
            config.admission.execs = few(text)?;
            Ok(())
        },
        get: |config| config.admission.execs.unwrap_or_default().into(),
    },
    Key {
        name: "admission.queue",
        variable: "HOTCELL_ADMISSION_QUEUE",
        default: "0",
        about: "cells and execs of all tenants that may wait for room at once; 0 for any",
        set: |config, text| {
            config.admission.queue = few(text)?;
            Ok(())
        },
        get: |config| config.admission.queue.unwrap_or_default().into(),
    },
    Key {
        name: "admission.egress_mb_per_day",
        variable: "HOTCELL_ADMISSION_EGRESS_MB_PER_DAY",
        default: "0",
        about: "MiB that all cells may send and receive over the network in a day of UTC; 0 for any",
        set: |config, text| {
            config.admission.egress_mb_per_day = bound(text)?;
            Ok(())
        },
        get: |config| config.admission.egress_mb_per_day.unwrap_or_default().into(),
    },
    Key {
        name: "admission.calls_per_s",
        variable: "HOTCELL_ADMISSION_CALLS_PER_S",
        default: "0",
        about: "calls a second that a server takes from all tenants together; 0 for any",
        set: |config, text| {
            config.admission.calls_per_s = few(text)?;
            Ok(())
        },
        get: |config| config.admission.calls_per_s.unwrap_or_default().into(),
    },
    Key {
        name: "admission.calls_burst",
        variable: "HOTCELL_ADMISSION_CALLS_BURST",
        default: "0",
        about: "calls that a server takes at once after a pause from all tenants together; 0 for \
                admission.calls_per_s",
        set: |config, text| {
            config.admission.calls_burst = few(text)?;
            Ok(())
        },
        get: |config| config.admission.calls_burst.unwrap_or_default().into(),
    },
    Key {
        name: "admission.wait_s",
        variable: "HOTCELL_ADMISSION_WAIT_S",
        default: "0",
        about: "seconds that a cell or an exec waits for room under admission.* before it is refused",
        set: |config, text| {
            config.admission.wait = values::duration(text)?;
            Ok(())
        },
        get: |config| config.admission.wait.as_secs().into(),
    },
    serve_keys::LIMITS_MEMORY,
    serve_keys::LIMITS_CPUS,
    serve_keys::LIMITS_PIDS,
    driver_keys::NATIVE_CGROUPS,
    driver_keys::NATIVE_LEVEL,
    driver_keys::NATIVE_REQUIRE,
    driver_keys::DOCKER_HOST,
    driver_keys::DOCKER_TLS_DIR,
    driver_keys::DOCKER_IMAGE,
    driver_keys::DOCKER_RUNTIME,
    driver_keys::DOCKER_NETWORK,
    driver_keys::DOCKER_REQUIRE,
    image_keys::ALLOW,
    image_keys::REQUIRE_DIGEST,
    image_keys::SCAN,
    upkeep_keys::IMAGE_KEEP,
    upkeep_keys::POOL_SIZE,
    upkeep_keys::POOL_IMAGES,
    upkeep_keys::POOL_TTL,
    serve_keys::HTTP_PATH,
    serve_keys::MCP_RESULTS,
    serve_keys::MCP_WAIT,
    serve_keys::MCP_MOST_WAIT,
    Key {
        name: "http.token_file",
        variable: "HOTCELL_HTTP_TOKEN_FILE",
        default: "",
        about: "the file that holds the bearer token of `hotcell serve --http`; \
                the variable HOTCELL_HTTP_TOKEN holds the token itself, and wins",
        set: |config, text| {
            config.http.token_file = PathBuf::from(text);
            Ok(())
        },
        get: |config| config.http.token_file.display().to_string().into(),
    },
    Key {
        name: "http.allowed_hosts",
        variable: "HOTCELL_HTTP_ALLOWED_HOSTS",
        default: "",
        about: "names under which the server may be reached beside localhost and its address, \
                with commas between; with a port only at that one",
        set: |config, text| {
            config.http.allowed_hosts = list(text);
            Ok(())
        },
        get: |config| config.http.allowed_hosts.join(",").into(),
    },
    Key {
        name: "http.allowed_origins",
        variable: "HOTCELL_HTTP_ALLOWED_ORIGINS",
        default: "",
        about: "origins whose pages may call the server and read its answers (CORS), \
                such as https://app.example.org, with commas between",
        set: |config, text| {
            config.http.allowed_origins = list(text);
            Ok(())
        },
        get: |config| config.http.allowed_origins.join(",").into(),
    },
    Key {
        name: "http.drain_s",
        variable: "HOTCELL_HTTP_DRAIN_S",
        default: "60",
        about: "seconds that calls under way may take after SIGTERM",
        set: |config, text| {
            config.http.drain_s = values::duration(text)?.as_secs();
            Ok(())
        },
        get: |config| config.http.drain_s.into(),
    },
    Key {
        name: "http.max_connections",
        variable: "HOTCELL_HTTP_MAX_CONNECTIONS",
        default: "1024",
        about: "connections that the server keeps at once; the next one is answered with 503",
        set: |config, text| {
            config.http.max_connections = count(text, 1 << 20)?;
            Ok(())
        },
        get: |config| config.http.max_connections.into(),
    },
    Key {
        name: "http.max_sessions",
        variable: "HOTCELL_HTTP_MAX_SESSIONS",
        default: "1024",
        about: "sessions of MCP that the server keeps at once",
        set: |config, text| {
            config.http.max_sessions = count(text, 1 << 20)?;
            Ok(())
        },
        get: |config| config.http.max_sessions.into(),
    },
    Key {
        name: "serve.otlp",
        variable: "HOTCELL_SERVE_OTLP",
        default: "",
        about: "the collector that `hotcell serve` sends traces to, such as http://127.0.0.1:4318; \
                none unless given",
        set: |config, text| {
            config.otlp = match text {
                "" => None,
                text => Some(text.parse().map_err(|error: Error| match error.hint {
                    Some(hint) => format!("{}; {hint}", error.message),
                    None => error.message,
                })?),
            };
            Ok(())
        },
        get: |config| config.otlp.as_ref().map(Collector::to_string).unwrap_or_default().into(),
    },
    Key {
        name: "policy.profile",
        variable: "HOTCELL_POLICY_PROFILE",
        default: "open",
        about: "by which rules agents are judged: open, careful, blocklist, dangerous, allowlist, vibesbox",
        set: |config, text| {
            let names: Vec<&str> = Policy::profiles().collect();
            if !names.contains(&text) {
                return Err(format!("{text:?} is none of {}", names.join(", ")));
            }
            config.policy.profile = text.to_owned();
            Ok(())
        },
        get: |config| config.policy.profile.clone().into(),
    },
    Key {
        name: "policy.file",
        variable: "HOTCELL_POLICY_FILE",
        default: "",
        about: "a file of rules that come before the profile's; read again when it changes",
        set: |config, text| {
            config.policy.file = PathBuf::from(text);
            Ok(())
        },
        get: |config| config.policy.file.display().to_string().into(),
    },
    Key {
        name: "policy.lines",
        variable: "HOTCELL_POLICY_LINES",
        default: "",
        about: "regular expressions with commas between: of what the rules allow, a command is run only if \
                one of them fits it, each command of a text by itself; all unless given",
        set: |config, text| {
            AllowedLines::parse(text).map_err(|error| error.to_string())?;
            config.policy.lines = text.to_owned();
            Ok(())
        },
        get: |config| config.policy.lines.clone().into(),
    },
    Key {
        name: "policy.ask_within_s",
        variable: "HOTCELL_POLICY_ASK_WITHIN_S",
        default: "600",
        about: "seconds that a command or a call waits for approval before it is denied",
        set: |config, text| {
            config.policy.ask_within_s = values::duration(text)?.as_secs().max(1);
            Ok(())
        },
        get: |config| config.policy.ask_within_s.into(),
    },
    Key {
        name: "policy.ask_client",
        variable: "HOTCELL_POLICY_ASK_CLIENT",
        default: "local",
        about: "which clients of agents may put an approval before the person at them: `never`, \
                `local` (those on standard input and output) or `always` (over HTTP, too)",
        set: |config, text| {
            config.policy.ask_client = text.parse()?;
            Ok(())
        },
        get: |config| config.policy.ask_client.as_str().into(),
    },
    Key {
        name: "serve.as_root",
        variable: "HOTCELL_SERVE_AS_ROOT",
        default: "true",
        about: "whether commands of agents may be root in their cells: `true` or `false`",
        set: |config, text| {
            config.agents_as_root =
                text.parse().map_err(|_| format!("{text:?} is neither true nor false"))?;
            Ok(())
        },
        get: |config| config.agents_as_root.to_string().into(),
    },
    Key {
        name: "redaction.shapes",
        variable: "HOTCELL_REDACTION_SHAPES",
        default: "on",
        about: "whether what has the form of a secret is masked in what agents are shown: on, off",
        set: |config, text| {
            config.redact_shapes = match text {
                "on" => true,
                "off" => false,
                text => return Err(format!("{text:?} is neither on nor off")),
            };
            Ok(())
        },
        get: |config| if config.redact_shapes { "on" } else { "off" }.into(),
    },
    Key {
        name: "redaction.names",
        variable: "HOTCELL_REDACTION_NAMES",
        default: "",
        about: "names whose values are masked like those of PASSWORD or API_KEY, with commas between; \
                case and what separates words do not count",
        set: |config, text| {
            config.redact_names = list(text)
                .iter()
                .map(|name| values::redacted_name(name))
                .collect::<Result<_, _>>()?;
            Ok(())
        },
        get: |config| config.redact_names.join(",").into(),
    },
    Key {
        name: "serve.workspaces",
        variable: "HOTCELL_SERVE_WORKSPACES",
        default: "",
        about: "directories that an agent may ask for as a workspace, with commas between, each as \
                DIR or DIR:MODE (cow, rw, ro)",
        set: |config, text| {
            config.workspaces =
                list(text).iter().map(|item| values::workspace(item)).collect::<Result<_, _>>()?;
            Ok(())
        },
        get: |config| {
            let items = config.workspaces.iter();
            let items = items.map(|item| format!("{}:{}", item.dir.display(), item.mode.as_str()));
            items.collect::<Vec<_>>().join(",").into()
        },
    },
    Key {
        name: "serve.allow",
        variable: "HOTCELL_SERVE_ALLOW",
        default: "",
        about: "names that the cells of agents may reach over the network, with commas between, each \
                as NAME, NAME:PORT, *.SUFFIX or *",
        set: |config, text| {
            config.allow = parsed(text)?;
            Ok(())
        },
        get: |config| joined(&config.allow),
    },
    Key {
        name: "egress.nameservers",
        variable: "HOTCELL_EGRESS_NAMESERVERS",
        default: "",
        about: "who is asked for the addresses of names that cells reach, with commas between, each as \
                ADDRESS or ADDRESS:PORT; those of the host unless given",
        set: |config, text| {
            config.egress.nameservers =
                list(text).iter().map(|item| nameserver(item)).collect::<Result<_, _>>()?;
            Ok(())
        },
        get: |config| joined(&config.egress.nameservers),
    },
    Key {
        name: "egress.hosts",
        variable: "HOTCELL_EGRESS_HOSTS",
        default: "",
        about: "names whose addresses are known, with commas between, each as NAME=ADDRESS; the \
                address may be a private one. For cells that are allowed the name itself, not by `*`",
        set: |config, text| {
            config.egress.hosts = parsed(text)?;
            Ok(())
        },
        get: |config| joined(&config.egress.hosts),
    },
    Key {
        name: "egress.private",
        variable: "HOTCELL_EGRESS_PRIVATE",
        default: "",
        about: "addresses that are not public and may be reached by name all the same, with commas \
                between, such as 10.1.2.0/24. For cells that are allowed the name itself, not by `*`",
        set: |config, text| {
            config.egress.private = parsed(text)?;
            Ok(())
        },
        get: |config| joined(&config.egress.private),
    },
    Key {
        name: "egress.max_connections",
        variable: "HOTCELL_EGRESS_MAX_CONNECTIONS",
        default: "256",
        about: "connections that one cell has over the network at once",
        set: |config, text| {
            config.egress.max_connections = count(text, 1 << 16)?;
            Ok(())
        },
        get: |config| config.egress.max_connections.into(),
    },
    Key {
        name: "egress.max_mb",
        variable: "HOTCELL_EGRESS_MAX_MB",
        default: "0",
        about: "MiB that one cell carries over the network in its life; 0 for no limit",
        set: |config, text| {
            config.egress.max_bytes = limit(text, 1 << 30)?.map(|mb| mb << 20);
            Ok(())
        },
        get: |config| config.egress.max_bytes.map_or(0, |bytes| bytes >> 20).into(),
    },
    Key {
        name: "egress.kb_per_s",
        variable: "HOTCELL_EGRESS_KB_PER_S",
        default: "0",
        about: "KiB a second that one cell carries over the network; 0 for no limit",
        set: |config, text| {
            config.egress.bytes_per_s = limit(text, 1 << 30)?.map(|kb| kb << 10);
            Ok(())
        },
        get: |config| config.egress.bytes_per_s.map_or(0, |bytes| bytes >> 10).into(),
    },
    Key {
        name: "egress.ca_file",
        variable: "HOTCELL_EGRESS_CA_FILE",
        default: "",
        about: "a file of certificates of authorities, in PEM, that are trusted besides those of the \
                host when a secret is added to a request as a header",
        set: |config, text| {
            let file = Some(text).filter(|it| !it.is_empty()).map(PathBuf::from);
            if file.as_ref().is_some_and(|file| !file.is_absolute()) {
                return Err("it is no path from the root".to_owned());
            }
            config.egress.ca_file = file;
            Ok(())
        },
        get: |config| {
            let file = config.egress.ca_file.as_ref();
            file.map(|file| file.display().to_string()).unwrap_or_default().into()
        },
    },
    Key {
        name: "serve.secrets",
        variable: "HOTCELL_SERVE_SECRETS",
        default: "",
        about: "secrets that an agent may have a cell granted, with commas between, each as `--secret` \
                takes it",
        set: |config, text| {
            config.secrets.allowed =
                list(text).iter().map(|name| values::word(name)).collect::<Result<_, _>>()?;
            Ok(())
        },
        get: |config| {
            let grants: Vec<String> =
                config.secrets.allowed.iter().map(ToString::to_string).collect();
            grants.join(",").into()
        },
    },
    Key {
        name: "secrets.key_file",
        variable: "HOTCELL_SECRETS_KEY_FILE",
        default: "",
        about: "the file with the key that seals secrets, made when the first one is set; \
                secrets/key in the state directory unless given",
        set: |config, text| {
            config.secrets.key_file = PathBuf::from(text);
            Ok(())
        },
        get: |config| config.secrets.key_file.display().to_string().into(),
    },
    Key {
        name: "toolbox.import",
        variable: "HOTCELL_TOOLBOX_IMPORT",
        default: "",
        about: "a file with `mcpServers` as other clients have it, whose servers are declared beside \
                those of [toolbox.NAME]",
        set: config_toolbox::set_import,
        get: |config| config.toolbox.import.display().to_string().into(),
    },
    Key {
        name: "toolbox.pass_through_tokens",
        variable: "HOTCELL_TOOLBOX_PASS_THROUGH_TOKENS",
        default: "10000",
        about: "what the definitions of all tools of [toolbox.NAME] may cost, in tokens, for clients to be \
                given them as they are; 0 for never",
        set: |config, text| {
            config.toolbox.pass_through_tokens = limit(text, 1 << 30)?.unwrap_or(0);
            Ok(())
        },
        get: |config| config.toolbox.pass_through_tokens.into(),
    },
    Key {
        name: "http.max_upload_mb",
        variable: "HOTCELL_HTTP_MAX_UPLOAD_MB",
        default: "4096",
        about: "MiB of a file or an archive that is sent to `/v1` at most",
        set: |config, text| {
            config.http.max_upload_mb = count(text, 1 << 30)?.into();
            Ok(())
        },
        get: |config| config.http.max_upload_mb.into(),
    },
    code_keys::CALLS,
    code_keys::PARALLEL_CALLS,
    code_keys::CALL_MB,
    code_keys::TOKENS,
    code_keys::CPU_S,
    code_keys::MEMORY_MB,
    code_keys::IMPORTS,
    ledger_keys::KEY_FILE,
    ledger_keys::HEAD_FILE,
    ledger_keys::SEGMENT_MB,
    ledger_keys::KEEP_DAYS,
    ledger_keys::KEEP_MB,
    ledger_keys::FLOOR_DAYS,
    ledger_keys::MOST_MB,
    ledger_keys::SYNC,
    code_keys::SESSION_TTL_S,
    code_keys::MOST_SESSIONS,
    code_keys::SESSION_MEMORY_MB,
];

pub(crate) fn choice<T: Clone>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices.iter().find(|(name, _)| *name == text).map(|(_, value)| value.clone()).ok_or_else(
        || {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            format!("it is none of: {}", names.join(", "))
        },
    )
}

pub(crate) fn list(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(str::to_owned).collect()
}

/// A whole number; 0 stands for none.
pub(crate) fn bound(text: &str) -> Result<Option<u64>, String> {
    match text.trim().parse::<u64>() {
        Ok(number) => Ok(Some(number).filter(|number| *number > 0)),
        Err(_) => Err("it is not a whole number".to_owned()),
    }
}

pub(crate) fn count(text: &str, most: u32) -> Result<u32, String> {
    match text.trim().parse::<u32>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err(format!("it is not a whole number from 1 to {most}")),
    }
}

/// A bound on what is counted; 0 for none.
fn few(text: &str) -> Result<Option<u32>, String> {
    match text.trim() {
        "0" => Ok(None),
        text => count(text, 1 << 20).map(Some),
    }
}

/// Several values with commas between.
pub(crate) fn parsed<T: FromStr<Err = Error>>(text: &str) -> Result<Vec<T>, String> {
    let parse = |item: &String| item.parse().map_err(|error: Error| error.message);
    list(text).iter().map(parse).collect()
}

pub(crate) fn joined<T: fmt::Display>(items: &[T]) -> Value {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",").into()
}

fn nameserver(text: &str) -> Result<SocketAddr, String> {
    const DNS_PORT: u16 = 53;
    let alone = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, DNS_PORT));
    text.parse::<SocketAddr>()
        .or_else(|_| alone())
        .map_err(|_| format!("{text:?} is no address of a name server"))
}

/// A limit, where 0 stands for none.
fn limit(text: &str, most: u32) -> Result<Option<u64>, String> {
    match text.trim() {
        "0" => Ok(None),
        text => count(text, most).map(|number| Some(number.into())),
    }
}
