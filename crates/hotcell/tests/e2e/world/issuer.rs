//! A real issuer of tokens, with keys of its own: `tests/clients/issuer.py`.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::ChildStdout;

use serde_json::{Value, json};

use super::{Live, World, clients};

/// An issuer that runs.
#[derive(Debug)]
pub(crate) struct Issuer {
    process: RefCell<(Live, BufReader<ChildStdout>)>,
    pub(crate) url: String,
}

impl Issuer {
    /// Starts one with these keys; `None`, said loudly, where there is nothing to start.
    pub(crate) fn start(world: &World, keys: &Value) -> Option<Self> {
        Self::start_with(world, keys, &[])
    }

    /// The same over TLS, with a certificate for this host by an authority that is shown by
    /// `ca.pem` in the directory.
    pub(crate) fn start_tls(world: &World, directory: &Path, host: &str) -> Option<Self> {
        fs::create_dir_all(directory).unwrap();
        world.own(directory);
        Self::start_with(world, &json!({ "a": "p256" }), &[directory.to_str().unwrap(), host])
    }

    fn start_with(world: &World, keys: &Value, more: &[&str]) -> Option<Self> {
        let python = clients()?.join("venv/bin/python");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/issuer.py");
        let (python, script) = (python.to_str().unwrap(), script.to_str().unwrap());
        let keys = keys.to_string();
        let mut live = world
            .other(python, ["-B", script, &keys])
            .args(more.iter().copied())
            .start_unread_with_input();
        let mut answers = BufReader::new(live.take_stdout());
        let url = read(&mut answers)["url"].as_str().unwrap().to_owned();
        Some(Self { process: RefCell::new((live, answers)), url })
    }

    /// Gives an order and waits for its answer.
    #[track_caller]
    pub(crate) fn order(&self, order: &Value) -> Value {
        let (live, answers) = &mut *self.process.borrow_mut();
        live.write(format!("{order}\n").as_bytes());
        read(answers)
    }

    /// A token with these claims.
    #[track_caller]
    pub(crate) fn sign(&self, key: &str, claims: &Value) -> String {
        self.token(&json!({ "do": "sign", "key": key, "claims": claims }))
    }

    /// A token as ordered.
    #[track_caller]
    pub(crate) fn token(&self, order: &Value) -> String {
        self.order(order)["token"].as_str().unwrap().to_owned()
    }
}

#[track_caller]
fn read(answers: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    answers.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}
