//! What servers can be declared, and what is said of those that cannot.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use hotcell_downstream::{Launch, ServerName, SpecText};
use hotcell_model::{Error, ErrorCode, Result, ToolCall, ToolServers};
use hotcell_secrets::SealedStore;
use serde_json::json;

use super::{TOOLBOX_KEYS, confined, open};
use crate::config::{Config, Overrides};
use crate::environment::Environment;

fn environment(variables: &[(&str, &str)]) -> Environment {
    let variables = variables.iter().map(|(name, value)| (name.into(), OsString::from(value)));
    let read = Environment::from_variables(variables, rustix::process::getuid().as_raw()).unwrap();
    Environment { machine_config: "/nonexistent".into(), ..read }
}

fn load_at(place: &Path, text: &str) -> Result<Config> {
    let file = place.join("hotcell.toml");
    std::fs::write(&file, text).unwrap();
    let state_dir = Some(place.join("state"));
    Config::load(
        &environment(&[]),
        &Overrides { file: Some(file), state_dir, ..Overrides::default() },
    )
}

fn load(text: &str) -> Result<Config> {
    load_at(tempfile::tempdir().unwrap().path(), text)
}

const PROGRAM: &str = "/opt/hotcell";
const TWO: &str = r#"
[toolbox.files]
command = "npx"
args = ["-y", "server, with a comma"]
env = { A = "visible-value", TOKEN = { secret = "github-token" } }
cwd = "/srv"
trust_annotations = true
timeout_s = 5
parallel = 2

[toolbox.far]
url = "https://example.com/mcp?key=visible-value"
bearer = { secret = "far-token" }
[toolbox.far.headers]
X-Key = "visible-value"
"#;

#[test]
fn servers_are_read_as_they_are_declared() {
    let servers = load(TWO).unwrap().toolbox.servers().unwrap();
    let files = &servers[&"files".parse().unwrap()];
    let Launch::Stdio(stdio) = &files.launch else { panic!("{files:?}") };
    assert_eq!(stdio.args, ["-y", "server, with a comma"]);
    assert_eq!(stdio.env["TOKEN"], SpecText::Secret("github-token".parse().unwrap()));
    assert_eq!(stdio.cwd.as_deref(), Some(Path::new("/srv")));
    assert!(files.trust_annotations);
    assert_eq!((files.timeout.as_secs(), files.parallel, files.most_bytes), (5, 2, 10_000_000));
    let far = &servers[&"far".parse().unwrap()];
    let Launch::Http(http) = &far.launch else { panic!("{far:?}") };
    assert_eq!(http.bearer, Some(SpecText::Secret("far-token".parse().unwrap())));
    assert!(!far.trust_annotations);
}

#[test]
fn what_is_declared_is_listed_without_values() {
    let config = load(TWO).unwrap();
    let said: Vec<String> = config
        .entries()
        .filter(|(name, _, _)| name.starts_with("toolbox.f"))
        .map(|(name, value, origin)| {
            assert!(origin.to_string().ends_with("hotcell.toml"), "{name}: {origin}");
            format!("{name}={value}")
        })
        .collect();
    assert!(said.contains(&"toolbox.files.command=\"npx\"".to_owned()), "{said:?}");
    assert!(said.contains(&"toolbox.files.env=\"A,TOKEN\"".to_owned()), "{said:?}");
    assert!(said.contains(&"toolbox.far.url=\"https://example.com/mcp\"".to_owned()), "{said:?}");
    assert!(!format!("{said:?} {config:?}").contains("visible"));
}

#[test]
fn a_server_in_a_cell_is_run_by_hotcell() {
    let text = "[toolbox.held]\ncommand = \"npx\"\nargs = [\"-y\", \"x\"]\ncell = true\n\
                allow = [\"*.example.com\", \"a.org:8080\"]\n\
                env = { A = \"b\", TOKEN = { secret = \"t\" } }\ncwd = \"/workspace/in\"";
    let config = load(text).unwrap();
    let servers = config.toolbox.servers().unwrap();
    let held: ServerName = "held".parse().unwrap();
    let Launch::Stdio(launch) = &servers[&held].launch else { panic!("{servers:?}") };
    let reached = &config.toolbox.in_cells[&held];
    let around = environment(&[("HOTCELL_LOG", "off")]);
    let held = confined(launch, reached, &config, &around, PROGRAM.as_ref()).unwrap();
    assert_eq!(held.command, PROGRAM);
    assert_eq!(held.args[0], "--state-dir");
    let (_, run) = held.args.split_at(held.args.iter().position(|arg| arg == "run").unwrap());
    let expected = "run -i --allow *.example.com --allow a.org:8080 --env A=b --secret t=TOKEN \
                    --cwd /workspace/in -- npx -y x";
    assert_eq!(run.join(" "), expected);
    assert_eq!(held.env["HOTCELL_LOG"], SpecText::Plain("off".to_owned()));
    let said: Vec<_> = config.entries().map(|(name, value, _)| format!("{name}={value}")).collect();
    assert!(said.contains(&"toolbox.held.cell=true".to_owned()), "{said:?}");
    for (text, key) in [
        ("command = \"x\"\ncell = \"yes\"", "cell"),
        ("url = \"https://a.com\"\ncell = true", "cell"),
        ("command = \"x\"\nallow = [\"a.com\"]", "allow"),
        ("command = \"x\"\ncell = true\nallow = [\"a b\"]", "allow"),
    ] {
        let error = load(&format!("[toolbox.a]\n{text}")).unwrap_err();
        assert!(error.message.contains(key), "{text}: {error:?}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_key_and_not_repeated() {
    for (text, words) in [
        ("[toolbox.Files]\ncommand = \"x\"", "[toolbox.Files]"),
        ("[toolbox.hotcell]\ncommand = \"x\"", "taken"),
        ("[toolbox.a]", "neither"),
        ("[toolbox.a]\ncommand = \"x\"\nurl = \"https://visible.com\"", "both"),
        ("[toolbox.a]\ncommand = \"x\"\ncolour = \"visible\"", "\"colour\""),
        ("[toolbox.a]\ncommand = \"x\"\nbearer = \"visible\"", "\"bearer\""),
        ("[toolbox.a]\nurl = \"https://a.com\"\nargs = []", "\"args\""),
        ("[toolbox.a]\nurl = \"http://visible.com\"", "not https"),
        ("[toolbox.a]\ncommand = \"x\"\nargs = \"visible\"", "args"),
        ("[toolbox.a]\ncommand = \"x\"\nargs = [1]", "args"),
        ("[toolbox.a]\ncommand = \"x\"\ncwd = \"visible\"", "cwd"),
        ("[toolbox.a]\ncommand = \"x\"\nenv = { K = 1 }", "env.K"),
        ("[toolbox.a]\ncommand = \"x\"\nenv = { K = { secret = \"a\", visible = 1 } }", "env.K"),
        ("[toolbox.a]\ncommand = \"x\"\nenv = { K = { secret = \"-\" } }", "env.K"),
        ("[toolbox.a]\ncommand = \"x\"\ntimeout_s = 0", "timeout_s"),
        ("[toolbox.a]\ncommand = \"x\"\nparallel = -1", "parallel"),
        ("[toolbox.a]\ncommand = \"x\"\ntrust_annotations = \"yes\"", "trust_annotations"),
        ("[toolbox]\nimport = \"servers.json\"", "toolbox.import"),
        ("[toolbox]\nvisible = 1", "toolbox.visible"),
    ] {
        let error = load(text).unwrap_err();
        assert_eq!(error.code, ErrorCode::Invalid, "{text}: {error:?}");
        assert!(error.message.contains(words), "{text}: {error:?}");
        let told = error.message.replace("toolbox.visible", "");
        assert!(!told.contains("visible"), "{text}: {error:?}");
    }
}

#[test]
fn servers_of_other_clients_are_imported_from_a_file_of_the_operator() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("servers.json");
    std::fs::write(&file, r#"{"mcpServers": {"other": {"command": "x"}}}"#).unwrap();
    let text = format!(
        "[toolbox]\nimport = {:?}\n[toolbox.own]\ncommand = \"y\"\n",
        file.to_str().unwrap()
    );
    let config = load_at(place.path(), &text).unwrap();
    let names = |config: &Config| {
        let servers = config.toolbox.servers()?;
        Ok::<Vec<String>, Error>(servers.keys().map(ToString::to_string).collect())
    };
    assert_eq!(names(&config).unwrap(), ["other", "own"]);
    assert!(config.own_files().contains(&file), "a cell could have it");

    std::fs::write(&file, r#"{"mcpServers": {"own": {"command": "x"}}}"#).unwrap();
    assert!(names(&config).unwrap_err().message.contains("[toolbox.own]"));
    std::fs::write(&file, "{} //").unwrap();
    assert!(names(&config).unwrap_err().message.contains("servers.json"));
    std::fs::write(&file, r#"{"mcpServers": {}}"#).unwrap();
    assert_eq!(names(&config).unwrap(), ["own"]);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert!(names(&config).unwrap_err().message.contains("everybody"));
}

#[test]
fn the_page_has_every_key() {
    let page = include_str!("../../../docs/toolbox.md");
    for (name, about) in TOOLBOX_KEYS {
        let row = format!("| `{name}` | {about} |");
        assert!(page.contains(&row), "the page lacks the row\n{row}");
    }
}

#[tokio::test]
async fn what_is_declared_can_be_called() {
    let place = tempfile::tempdir().unwrap();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../hotcell-downstream/tests/downstream/misbehaving.py"
    );
    let text = format!(
        "[toolbox.it]\ncommand = \"python3\"\nargs = [{script:?}]\nenv = {{ TOKEN = {{ secret = \"token\" }} }}\n"
    );
    let config = load_at(place.path(), &text).unwrap();
    let secrets = place.path().join("secrets");
    let store = SealedStore::new(secrets.clone(), secrets.join("key"), Default::default());
    let around = environment(&[
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("LANG", "C.UTF-8"),
        ("OTHER", "x"),
    ]);
    let call = || ToolCall {
        server: "it".to_owned(),
        tool: "env".to_owned(),
        arguments: serde_json::Map::new(),
        timeout: None,
    };
    let store = Arc::new(store);
    let servers = open(&config, &around, store.clone(), PROGRAM.as_ref()).unwrap().unwrap();
    let refused = servers.call(call()).await.unwrap_err();
    assert!(refused.message.contains("token"), "{refused:?}");
    drop(servers);

    let value = hotcell_model::SecretValue::new(b"a-value-that-is-long".to_vec()).unwrap();
    hotcell_model::SecretStore::set(&*store, &config.tenant, &"token".parse().unwrap(), &value)
        .unwrap();
    let servers = open(&config, &around, store, PROGRAM.as_ref()).unwrap().unwrap();
    let given = servers.call(call()).await.unwrap().structured.unwrap();
    assert_eq!((&given["LANG"], given.get("OTHER")), (&json!("C.UTF-8"), None));
    assert!(given["TOKEN"].as_str().is_some_and(|token| !token.contains("a-value")), "{given}");
    let kept = std::fs::read_dir(config.state_dir.join("toolbox")).unwrap().count();
    assert_eq!(kept, 1);
    assert!(
        open(
            &load("").unwrap(),
            &around,
            Arc::new(SealedStore::new(secrets.clone(), secrets.join("key"), Default::default())),
            PROGRAM.as_ref()
        )
        .unwrap()
        .is_none()
    );
}
