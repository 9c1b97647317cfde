//! Every client, started or over HTTP, with every kind of file that may be there.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use hotcell_model::{Alias, ErrorCode, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Client, Language, Scope, Server, SettingsFile, Surroundings, http_url, server_name,
    variable_name,
};
use crate::environment::Environment;

const CLIENTS: [Client; 8] = [
    Client::ClaudeCode,
    Client::ClaudeDesktop,
    Client::Cursor,
    Client::Vscode,
    Client::Codex,
    Client::Gemini,
    Client::Opencode,
    Client::Qwen,
];
const NOW: Timestamp = Timestamp(1_794_724_200_000);
const TEXTS: [&str; 2] = ["stdio", "http"];

fn server(kind: &str) -> Server {
    match kind {
        "stdio" => Server::Stdio {
            program: "/opt/hotcell".to_owned(),
            args: vec!["serve".to_owned(), "--cell".to_owned(), "it's".to_owned()],
        },
        "http" => Server::Http {
            url: "http://127.0.0.1:8000/mcp".to_owned(),
            token_variable: Some("CELL_TOKEN".to_owned()),
        },
        other => panic!("{other}"),
    }
}

/// Every client with every kind of server that its settings can name.
fn combinations() -> impl Iterator<Item = (Client, &'static str)> {
    let all = CLIENTS.into_iter().flat_map(|client| TEXTS.map(|kind| (client, kind)));
    all.filter(|combination| *combination != (Client::ClaudeDesktop, "http"))
}

/// A home directory in which one client keeps its file.
struct Home {
    client: Client,
    kind: &'static str,
    dir: TempDir,
}

impl Home {
    fn new((client, kind): (Client, &'static str)) -> Self {
        Self { client, kind, dir: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> std::path::PathBuf {
        let environment =
            Environment { home: Some(self.dir.path().to_owned()), ..Environment::default() };
        let around = surroundings(&environment, None);
        self.client.file(Scope::User, &around).unwrap()
    }

    fn holding(self, text: &str) -> Self {
        fs::create_dir_all(self.file().parent().unwrap()).unwrap();
        fs::write(self.file(), text).unwrap();
        self
    }

    fn edited(&self, text: &str) -> Result<String, super::Unfit> {
        let entry = self.client.entry(Scope::User, &server(self.kind)).unwrap();
        self.client.language().edit(text, self.client.section(), "hotcell", &entry)
    }

    /// Sets the client up as the command does; the text and the copy of the one before.
    fn set_up(&self) -> (String, Option<std::path::PathBuf>) {
        let file = SettingsFile::read(&self.file()).unwrap();
        let after = self.edited(file.text()).unwrap();
        let kept = file.replace(&after, Scope::User, NOW).unwrap();
        let text = fs::read_to_string(self.file()).unwrap();
        assert_eq!(text, after, "{self:?}");
        assert_eq!(self.edited(&text).unwrap(), text, "a second time changes something: {self:?}");
        (text, kept)
    }

    fn meaning(&self, text: &str) -> Value {
        self.client.language().read(text).unwrap()
    }

    fn entry_of(&self, text: &str) -> Value {
        self.meaning(text)[self.client.section()]["hotcell"].clone()
    }

    fn expected(&self) -> Value {
        let entry = self.client.entry(Scope::User, &server(self.kind)).unwrap();
        entry.fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

impl std::fmt::Debug for Home {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} over {}", self.client.name(), self.kind)
    }
}

fn surroundings<'a>(environment: &'a Environment, cell: Option<&'a Alias>) -> Surroundings<'a> {
    Surroundings { environment, directory: Path::new("/src/app"), directory_cell: cell }
}

#[test]
fn without_a_file_one_is_made_for_its_user_alone() {
    for home in combinations().map(Home::new) {
        let (text, kept) = home.set_up();
        assert_eq!(home.entry_of(&text), home.expected(), "{home:?}");
        assert_eq!(kept, None);
        let mode = fs::metadata(home.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{home:?}");
    }
}

#[test]
fn an_empty_file_is_filled() {
    for empty in ["", " \n"] {
        for home in combinations().map(|it| Home::new(it).holding(empty)) {
            let (text, kept) = home.set_up();
            assert_eq!(home.entry_of(&text), home.expected(), "{home:?}");
            assert_eq!(fs::read_to_string(kept.unwrap()).unwrap(), empty);
        }
    }
}

#[test]
fn servers_of_others_and_comments_stay() {
    for combination in combinations() {
        let home = Home::new(combination);
        let section = home.client.section();
        let (text, kept_words) = match home.client.language() {
            Language::Json => (
                format!(
                    "// mine\n{{\n\t\"theme\": \"dark\", /* nice */\n\t\"{section}\": {{\n\t\t\
                     // the other one\n\t\t\"other\": {{\"command\":\"x\",}},\n\t}},\n\t\"z\": 1e2\n}}\n"
                ),
                [
                    "// mine\n",
                    "/* nice */",
                    "\t\t// the other one\n\t\t\"other\": {\"command\":\"x\",},\n",
                ],
            ),
            Language::Toml => (
                format!(
                    "# mine\ntheme = 'dark' # nice\n\n[{section}.other] # the other one\ncommand='x'\n\n[z]\nn=1\n"
                ),
                [
                    "# mine\n",
                    "theme = 'dark' # nice\n",
                    "[mcp_servers.other] # the other one\ncommand='x'\n",
                ],
            ),
        };
        let home = home.holding(&text);
        let (after, kept) = home.set_up();
        assert_eq!(home.entry_of(&after), home.expected(), "{home:?}");
        for words in kept_words {
            assert!(after.contains(words), "{home:?}: {words:?} is not in\n{after}");
        }
        assert_eq!(home.meaning(&after)[section]["other"], json!({"command": "x"}));
        assert_eq!(fs::read_to_string(kept.unwrap()).unwrap(), text);
        for line in text.lines() {
            let line = line.trim_end_matches(',');
            assert!(after.lines().any(|it| it.starts_with(line)), "{home:?}: {line:?}\n{after}");
        }
    }
}

#[test]
fn an_older_entry_is_brought_up_to_date_and_keeps_what_its_user_added() {
    let old = [
        json!({"command": "/old", "args": ["serve"], "timeout": 5,
               "env": {"A": "b", "HOTCELL_STATE_DIR": "/old"}, "cwd": "/x",
               "environment": {"HOTCELL_STATE_DIR": "/old"}}),
        json!({"type": "sse", "url": "http://old/", "httpUrl": "http://old/", "timeout": 5,
               "headers": {"Authorization": "Bearer old"}, "bearer_token_env_var": "OLD"}),
    ];
    for (combination, old) in combinations().flat_map(|it| old.clone().map(|old| (it, old))) {
        let home = Home::new(combination);
        let section = home.client.section();
        let whole = json!({ section: { "hotcell": old, "last": {} } });
        let text = match home.client.language() {
            Language::Json => whole.to_string(),
            Language::Toml => toml::to_string(&whole).unwrap(),
        };
        let home = home.holding(&text);
        let (after, _) = home.set_up();
        let mut expected = home.expected();
        expected["timeout"] = json!(5);
        if home.kind == "stdio" && old.get("command").is_some() {
            expected["env"] = json!({"A": "b"});
            expected["cwd"] = json!("/x");
        }
        assert_eq!(home.entry_of(&after), expected, "{home:?} from {old}");
    }
}

#[test]
fn own_headers_stay_with_the_address_they_are_for() {
    let home = Home::new((Client::Cursor, "http"));
    let text = json!({"mcpServers": {"hotcell": {
        "url": "http://127.0.0.1:8000/mcp",
        "headers": {"X-Team": "a", "authorization": "Bearer old"},
    }}});
    let home = home.holding(&text.to_string());
    let (after, _) = home.set_up();
    let headers = json!({"X-Team": "a", "Authorization": "Bearer ${env:CELL_TOKEN}"});
    assert_eq!(home.entry_of(&after)["headers"], headers);
    let moved = after.replace("127.0.0.1", "10.0.0.1");
    let entry = Client::Cursor
        .entry(
            Scope::User,
            &Server::Http { url: "http://127.0.0.1:8000/mcp".to_owned(), token_variable: None },
        )
        .unwrap();
    let back = Language::Json.edit(&moved, "mcpServers", "hotcell", &entry).unwrap();
    assert_eq!(home.entry_of(&back), json!({"url": "http://127.0.0.1:8000/mcp"}));
}

#[test]
fn a_broken_file_is_left_alone_and_its_line_is_named() {
    for home in combinations().map(Home::new) {
        let broken = match home.client.language() {
            Language::Json => ["{\n  \"a\": 1,\n  \"b\" 2\n}", "{\n\n'a': 1}", "{\n\n\"a\": 0x1}"],
            Language::Toml => ["a = 1\nb = 2\nc 3\n", "a = 1\n\n= 2", "a = 1\n\na = 2"],
        };
        for text in broken {
            let unfit = home.edited(text).unwrap_err();
            assert_eq!(unfit.line, Some(3), "{home:?}: {text:?} gave {unfit:?}");
            assert!(!unfit.problem.is_empty());
        }
        let section = home.client.section();
        let odd = match home.client.language() {
            Language::Json => vec![
                "[]".to_owned(),
                "3".to_owned(),
                format!("{{\"{section}\": []}}"),
                format!("{{\"{section}\": null}}"),
                format!("{{\"{section}\": {{\"hotcell\": 1}}}}"),
                format!("{{\"{section}\": {{}}, \"{section}\": {{}}}}"),
                format!("{{\"{section}\": {{\"hotcell\": {{}}, \"hotcell\": {{}}}}}}"),
                "[".repeat(100_000),
            ],
            Language::Toml => {
                vec![
                    format!("{section} = 1"),
                    format!("{section}.hotcell = 1"),
                    format!("[[{section}]]"),
                ]
            }
        };
        for text in odd {
            assert!(home.edited(&text).is_err(), "{home:?} took {text:.80}");
        }
    }
}

#[test]
fn a_read_only_file_is_left_alone() {
    for home in combinations().map(|it| Home::new(it).holding("")) {
        fs::set_permissions(home.file(), fs::Permissions::from_mode(0o444)).unwrap();
        let error = SettingsFile::read(&home.file()).unwrap_err();
        assert_eq!(error.code, ErrorCode::Denied);
        assert!(error.message.contains(home.file().to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_changed() {
    for home in combinations().map(|it| Home::new(it).holding("")) {
        let elsewhere = home.dir.path().join("dotfiles");
        fs::create_dir(&elsewhere).unwrap();
        fs::rename(home.file(), elsewhere.join("file")).unwrap();
        symlink(elsewhere.join("file"), home.file()).unwrap();
        let (text, kept) = home.set_up();
        assert!(fs::symlink_metadata(home.file()).unwrap().is_symlink(), "{home:?}");
        assert_eq!(fs::read_to_string(elsewhere.join("file")).unwrap(), text);
        assert_eq!(kept.unwrap().parent(), Some(elsewhere.as_path()));
    }
}

#[test]
fn a_mark_at_the_beginning_and_foreign_line_ends_stay() {
    for home in combinations().map(Home::new) {
        let text = match home.client.language() {
            Language::Json => "\u{feff}{\r\n  \"a\": 1\r\n}\r\n",
            Language::Toml => "\u{feff}a = 1\r\n",
        };
        let after = home.edited(text).unwrap();
        assert!(after.starts_with('\u{feff}'), "{home:?}: {after:?}");
        assert!(!after.replace("\r\n", "").contains('\n'), "{home:?}: {after:?}");
    }
}

#[test]
fn where_the_files_are() {
    let path = |text: &str| Some(Path::new(text).to_owned());
    let home = Environment { home: path("/h"), ..Environment::default() };
    let moved = Environment {
        home: path("/h"),
        config_home: path("/c"),
        claude_config: path("/claude"),
        codex_home: path("/codex"),
        gemini_home: path("/gemini"),
        ..Environment::default()
    };
    let mut listed = String::new();
    for client in CLIENTS {
        for (scope, environment) in
            [(Scope::User, &home), (Scope::User, &moved), (Scope::Project, &home)]
        {
            let shown = match client.file(scope, &surroundings(environment, None)) {
                Ok(path) => path.display().to_string(),
                Err(error) => format!("{}: {error}", error.code),
            };
            listed.push_str(&format!("{} {shown}\n", client.name()));
        }
    }
    insta::assert_snapshot!("files_of_clients", listed);
    let nowhere = Environment::default();
    let error = Client::Cursor.file(Scope::User, &surroundings(&nowhere, None)).unwrap_err();
    assert!(error.message.contains("HOME"), "{error}");
}

#[test]
fn what_is_printed_for_every_client() {
    let cell: Alias = "app-01234567".parse().unwrap();
    let environment = Environment::default();
    let around = surroundings(&environment, Some(&cell));
    let mut shown = String::new();
    for client in CLIENTS {
        for (scope, kind) in
            [(Scope::User, "stdio"), (Scope::Project, "stdio"), (Scope::User, "http")]
        {
            let mut server = server(kind);
            if let Server::Stdio { args, .. } = &mut server {
                *args = vec!["serve".to_owned()];
                let project = client.project_args(scope, &around);
                let cell = client.cell(scope, &around).filter(|_| project.is_empty());
                args.extend(project);
                args.extend(cell.into_iter().flat_map(|cell| ["--cell".to_owned(), cell]));
            }
            shown.push_str(&format!("== {} {scope:?} {kind}\n", client.name()));
            let entry = match client.entry(scope, &server) {
                Ok(entry) => entry,
                Err(error) => {
                    shown.push_str(&format!("{}: {error}\n", error.code));
                    continue;
                }
            };
            shown.push_str(&client.snippet("hotcell", &entry).unwrap());
            if let Some(words) = client.own_command(scope, "hotcell", &server, &entry) {
                shown.push_str(&format!("$ {}\n", words.join(" ")));
            }
        }
    }
    insta::assert_snapshot!("snippets_of_clients", shown);
}

#[test]
fn names_on_the_command_line_are_those_of_the_clients() {
    use clap::ValueEnum;
    assert_eq!(Client::value_variants(), CLIENTS);
    for client in CLIENTS {
        assert_eq!(client.to_possible_value().unwrap().get_name(), client.name());
        assert!(client.name().parse::<Alias>().is_ok(), "its name is that of a cell");
    }
}

#[test]
fn addresses_and_names_are_checked() {
    assert_eq!(http_url("http://127.0.0.1:8000").unwrap(), "http://127.0.0.1:8000/mcp");
    for good in ["https://box.example/", "http://[::1]:80/mcp", "https://h/a?b=c%20d"] {
        assert_eq!(http_url(good).unwrap(), good);
    }
    for bad in [
        "",
        "box:8000",
        "ftp://box/",
        "http://",
        "http:///mcp",
        "http://:80/",
        "http://u:p@box/",
        "http://box/a b",
        "http://box/\"",
        "http://box/${X}",
        "http://bóx/",
        "http://box/#a",
    ] {
        assert!(http_url(bad).is_err(), "{bad}");
    }
    assert!(!http_url("http://u:geheim@box/").unwrap_err().contains("geheim"));
    assert!(["a", "hotcell-2", "A_b"].iter().all(|name| server_name(name).is_ok()));
    assert!(["", "a b", "a.b", "ä", &"x".repeat(65)].iter().all(|name| server_name(name).is_err()));
    assert!(["A", "_x1", "CELL_TOKEN"].iter().all(|name| variable_name(name).is_ok()));
    assert!(["", "1A", "A-B", "sk-123", "$A"].iter().all(|name| variable_name(name).is_err()));
}

#[test]
fn which_servers_are_elsewhere() {
    let at = |url: &str| Server::Http { url: url.to_owned(), token_variable: None };
    for near in
        ["http://127.0.0.1:80/", "http://127.9.9.9/", "http://[::1]:1/", "http://LocalHost/"]
    {
        assert!(!at(near).is_elsewhere(), "{near}");
    }
    for far in ["http://10.0.0.1/", "https://box.example/mcp", "http://[fe80::1]/"] {
        assert!(at(far).is_elsewhere(), "{far}");
    }
    assert!(!server("stdio").is_elsewhere());
}
