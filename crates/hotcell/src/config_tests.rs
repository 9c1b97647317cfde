//! How the layers of the configuration add up, and what is said about bad ones.

use std::ffi::OsString;
use std::path::Path;

use hotcell_model::ErrorCode;

use crate::config::{Cgroups, Config, Overrides};
use crate::config_keys::KEYS;
use crate::environment::Environment;

fn environment(variables: &[(&str, &str)]) -> Environment {
    let variables = variables.iter().map(|(name, value)| (name.into(), OsString::from(value)));
    let read = Environment::from_variables(variables, 1000).unwrap();
    Environment { machine_config: "/nonexistent".into(), ..read }
}

fn home(variables: &[(&str, &str)]) -> Environment {
    let mut all = vec![("HOME", "/nonexistent/home")];
    all.extend(variables);
    environment(&all)
}

fn load(environment: &Environment) -> hotcell_model::Result<Config> {
    Config::load(environment, &Overrides::default())
}

fn with_file(text: &str, environment: &Environment) -> hotcell_model::Result<Config> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hotcell.toml");
    std::fs::write(&file, text).unwrap();
    Config::load(environment, &Overrides { file: Some(file), ..Overrides::default() })
}

fn origin(config: &Config, name: &str) -> String {
    config.entries().find(|(key, _, _)| *key == name).unwrap().2.to_string()
}

#[test]
fn nothing_said_gives_the_defaults() {
    let config = load(&home(&[])).unwrap();
    assert_eq!(config.state_dir, Path::new("/nonexistent/home/.local/state/hotcell"));
    assert_eq!(config.log, "warn");
    assert_eq!(config.cgroups, Cgroups::Auto);
    assert!(config.entries().all(|(_, _, origin)| origin.to_string() == "default"));
}

#[test]
fn the_defaults_are_the_engines() {
    let config = load(&home(&[])).unwrap();
    let settings = hotcell_engine::Settings::default();
    assert_eq!(
        crate::session::settings(&config, settings.workspaces.clone(), settings.secrets.clone()),
        settings
    );
}

#[test]
fn later_layers_win() {
    let file = "sleep_after_s = 10\nmax_running = 5\nlog = \"info\"\n[native]\ncgroups = \"off\"\n";
    let environment =
        home(&[("HOTCELL_MAX_RUNNING", "6"), ("HOTCELL_LOG", "debug"), ("HOTCELL_OUTPUT_MB", "")]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hotcell.toml");
    std::fs::write(&path, file).unwrap();
    let overrides = Overrides {
        file: Some(path.clone()),
        state_dir: Some("/elsewhere".into()),
        log: Some("trace".to_owned()),
        log_format: Some("json".to_owned()),
        tenant: Some("team-1".to_owned()),
        ..Overrides::default()
    };
    let config = Config::load(&environment, &overrides).unwrap();
    assert_eq!(config.sleep_after_s, 10);
    assert_eq!(config.max_running, 6);
    assert_eq!(config.log, "trace");
    assert_eq!(config.tenant.as_str(), "team-1");
    assert_eq!(config.output_mb, 64);
    assert_eq!(config.cgroups, Cgroups::Off);
    assert_eq!(config.state_dir, Path::new("/elsewhere"));
    assert_eq!(origin(&config, "sleep_after_s"), path.display().to_string());
    assert_eq!(origin(&config, "max_running"), "HOTCELL_MAX_RUNNING");
    assert_eq!(origin(&config, "log"), "--log");
    assert_eq!(origin(&config, "log_format"), "--log-format");
    assert_eq!(origin(&config, "state_dir"), "--state-dir");
    assert_eq!(origin(&config, "output_mb"), "default");
}

#[test]
fn the_own_file_goes_before_the_machines() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("hotcell/hotcell.toml");
    let machine = dir.path().join("machine.toml");
    std::fs::write(&machine, "max_running = 3\noutput_mb = 3\n").unwrap();
    let config_home = dir.path().display().to_string();
    let mut environment = home(&[("XDG_CONFIG_HOME", &config_home)]);
    environment.machine_config.clone_from(&machine);
    assert_eq!(load(&environment).unwrap().max_running, 3);

    std::fs::create_dir(dir.path().join("hotcell")).unwrap();
    std::fs::write(&own, "max_running = 4\n").unwrap();
    let config = load(&environment).unwrap();
    assert_eq!((config.max_running, config.output_mb), (4, 64));
}

#[test]
fn the_state_directory_follows_xdg_and_home() {
    let xdg = load(&home(&[("XDG_STATE_HOME", "/state")])).unwrap();
    assert_eq!(xdg.state_dir, Path::new("/state/hotcell"));
    let relative = load(&home(&[("XDG_STATE_HOME", "state")])).unwrap();
    assert_eq!(relative.state_dir, Path::new("/nonexistent/home/.local/state/hotcell"));
    let root = Environment { uid: 0, ..environment(&[]) };
    assert_eq!(load(&root).unwrap().state_dir, Path::new("/var/lib/hotcell"));
    let homeless = load(&environment(&[])).unwrap_err();
    assert!(homeless.message.contains("HOME is not set"), "{homeless}");
}

#[test]
fn durations_may_have_units() {
    let config = with_file("sleep_after_s = \"5m\"\nlog_keep_s = 0\n", &home(&[])).unwrap();
    assert_eq!((config.sleep_after_s, config.log_keep_s), (300, 0));
}

#[test]
fn what_is_wrong_is_named() {
    let said = |result: hotcell_model::Result<Config>| {
        let error = result.unwrap_err();
        assert_eq!(error.code, ErrorCode::Invalid);
        error.message
    };
    let unknown = said(with_file("[native]\ncgroup = \"off\"\n", &home(&[])));
    assert!(unknown.contains("\"native.cgroup\" in /"), "{unknown}");
    let variable = said(load(&home(&[("HOTCELL_SLEEP", "3")])));
    assert!(variable.contains("HOTCELL_SLEEP"), "{variable}");
    let value = said(load(&home(&[("HOTCELL_MAX_RUNNING", "0")])));
    assert!(value.contains("HOTCELL_MAX_RUNNING cannot be \"0\""), "{value}");
    for (text, key) in [
        ("max_running = true", "max_running"),
        ("output_mb = -1", "output_mb"),
        ("driver = \"vm\"", "driver"),
        ("sleep_after_s = 0", "sleep_after_s"),
        ("log = \"a=b=c\"", "log"),
        ("native.cgroups = \"on\"", "native.cgroups"),
    ] {
        let message = said(with_file(text, &home(&[])));
        assert!(message.contains(&format!("{key} in /")), "{message}");
    }
    let syntax = said(with_file("log = \"warn\"\nmax_running = = 3\n", &home(&[])));
    assert!(syntax.contains("line 2"), "{syntax}");
    let overrides = Overrides { file: Some("/nonexistent/x.toml".into()), ..Overrides::default() };
    let absent = said(Config::load(&home(&[]), &overrides));
    assert!(absent.contains("/nonexistent/x.toml"), "{absent}");
}

#[test]
fn variables_of_others_are_left_alone() {
    let others = [("HOTCELL_REQUIRE", "native"), ("HOTCELL_SERVICE_HOST", "10.0.0.1")];
    load(&home(&others)).unwrap();
}

#[test]
fn names_follow_one_rule() {
    for key in KEYS {
        let expected = format!("HOTCELL_{}", key.name.replace('.', "_").to_ascii_uppercase());
        assert_eq!(key.variable, expected);
    }
}

#[test]
fn lists_are_written_with_commas_or_as_arrays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hotcell.toml");
    std::fs::write(&path, "[http]\nallowed_hosts = [\"a.example.org\", \"b.example.org:81\"]\n")
        .unwrap();
    let overrides = Overrides { file: Some(path), ..Overrides::default() };
    let environment = home(&[("HOTCELL_HTTP_ALLOWED_ORIGINS", "https://a.org, https://b.org")]);
    let config = Config::load(&environment, &overrides).unwrap();
    assert_eq!(config.http.allowed_hosts, ["a.example.org", "b.example.org:81"]);
    assert_eq!(config.http.allowed_origins, ["https://a.org", "https://b.org"]);
}

#[test]
fn a_token_in_the_environment_is_never_shown() {
    let environment = home(&[("HOTCELL_HTTP_TOKEN", "a-token-nobody-may-see")]);
    let config = load(&environment).unwrap();
    assert!(environment.http_token.is_some());
    let shown: Vec<String> = config.entries().map(|(_, value, _)| value.to_string()).collect();
    assert!(!format!("{environment:?} {config:?} {shown:?}").contains("nobody"));
}

#[test]
fn traces_go_nowhere_unless_told() {
    // A client that traces itself hands its variables down to the server it starts.
    let ambient = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")];
    assert_eq!(load(&home(&ambient)).unwrap().otlp, None);
    let told = load(&home(&[("HOTCELL_SERVE_OTLP", "http://localhost")])).unwrap();
    assert_eq!(told.otlp.unwrap().to_string(), "http://127.0.0.1:4318");
    let error = load(&home(&[("HOTCELL_SERVE_OTLP", "https://localhost")])).unwrap_err();
    assert!(error.message.contains("https"), "{error:?}");
}

#[test]
fn what_is_said_of_tenants_is_listed_with_its_origin() {
    let text = "[tenants.default]\ncells = 5\n[tenants.a]\nexecs = 2\nsecrets = \"npm\"\n";
    let config = with_file(text, &home(&[])).unwrap();
    let said: Vec<_> = config
        .entries()
        .filter(|(name, _, _)| name.starts_with("tenants."))
        .map(|(name, value, _)| (name.into_owned(), value.to_string()))
        .collect();
    let expected = [
        ("tenants.default.cells", "5"),
        ("tenants.a.secrets", "\"npm\""),
        ("tenants.a.execs", "2"),
    ];
    assert_eq!(said, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(origin(&config, "tenants.a.execs").ends_with("hotcell.toml"));
    let nothing = load(&home(&[])).unwrap();
    assert!(nothing.entries().all(|(name, _, _)| !name.starts_with("tenants.")));
}

#[test]
fn what_is_said_of_tenants_is_taken_and_what_means_nothing_refused() {
    use hotcell_engine::{Quota, TenantTable};

    use crate::config_tenants::{TENANT_KEYS, take};

    let mut table = TenantTable::default();
    for (name, value) in [
        ("tenants.a.cells", "3"),
        ("tenants.default.cells", "5"),
        ("tenants.default.calls_per_s", "7"),
        ("tenants.a.secrets", "github,npm"),
    ] {
        assert!(take(&mut table, name, value).unwrap(), "{name}");
    }
    assert!(!take(&mut table, "tenant", "a").unwrap());
    let of = |tenant: &str, quota| {
        let allowed = table.allowed(&tenant.parse().unwrap(), quota)?;
        Some((allowed.limit, allowed.key))
    };
    assert_eq!(of("a", Quota::Cells), Some((3, "tenants.a.cells".to_owned())));
    assert_eq!(of("b", Quota::Cells), Some((5, "tenants.default.cells".to_owned())));
    assert_eq!(of("a", Quota::CallsPerS), Some((7, "tenants.default.calls_per_s".to_owned())));
    assert_eq!(of("a", Quota::Execs), None);
    let named = &table.named[&"a".parse().unwrap()];
    assert_eq!(named.secrets.as_ref().unwrap().len(), 2);
    for (name, value) in [
        ("tenants.a.colour", "3"),
        ("tenants.a", "3"),
        ("tenants.A.cells", "3"),
        ("tenants.a.cells", "-1"),
    ] {
        let refused = take(&mut table, name, value).unwrap_err();
        assert_eq!(refused.code, hotcell_model::ErrorCode::Invalid, "{name}");
    }
    let page = include_str!("../../../docs/tenants.md");
    for key in TENANT_KEYS {
        let row = format!("| `{}` | {} |", key.name, key.about);
        assert!(page.contains(&row), "the page lacks the row\n{row}");
    }
}

#[test]
fn engines_are_declared_by_name_and_the_page_has_every_key() {
    use crate::engine_keys::{ENGINE_KEYS, EngineTable, entries, take};

    let mut table = EngineTable::new();
    for (name, value) in [
        ("docker.engines.west.host", "ssh://me@far:2222"),
        ("docker.engines.west.weight", "3"),
        ("docker.engines.west.labels", "gpu=yes,zone=b"),
        ("docker.engines.east.host", "tcp://10.0.0.7:2376"),
        ("docker.engines.east.tls_dir", "/certs"),
    ] {
        assert!(take(&mut table, name, value).unwrap(), "{name}");
    }
    assert!(!take(&mut table, "docker.host", "unix:///a").unwrap());
    let shown: Vec<String> =
        entries(&table).map(|(name, value)| format!("{name} = {value}")).collect();
    assert_eq!(
        shown,
        [
            r#"docker.engines.east.host = "tcp://10.0.0.7:2376""#,
            "docker.engines.east.weight = 1",
            r#"docker.engines.east.tls_dir = "/certs""#,
            r#"docker.engines.west.host = "ssh://me@far:2222""#,
            "docker.engines.west.weight = 3",
            r#"docker.engines.west.labels = "gpu=yes,zone=b""#,
        ]
    );
    let page = include_str!("../../../docs/docker.md");
    for key in ENGINE_KEYS {
        let row = format!("| `{}` | {} |", key.name, key.about);
        assert!(page.contains(&row), "the page lacks the row\n{row}");
    }
}
