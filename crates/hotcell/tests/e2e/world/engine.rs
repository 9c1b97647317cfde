//! What the Docker engine says of a world, without any client of ours.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;

use super::{World, docker};

/// What the engine answers to a question.
pub(crate) fn ask_engine(method: &str, path: &str) -> Value {
    tell_engine(method, path, &[])
}

/// The same, with something to read.
pub(crate) fn tell_engine(method: &str, path: &str, body: &[u8]) -> Value {
    let (socket, _) = docker().unwrap();
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Length: {length}\r\n\r\n")
        .unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
    serde_json::from_str(body).unwrap_or(Value::Null)
}

/// The containers and volumes of a world, each in a few words.
pub(crate) fn labelled(world: &World) -> Vec<String> {
    let Ok(id) = fs::read_to_string(world.state_dir().join("docker/id.json")) else {
        return Vec::new();
    };
    let label = format!("dev.hotcell.state={}", id.trim_matches('"'));
    let filters = format!("%7B%22label%22%3A%5B%22{label}%22%5D%7D");
    let containers = ask_engine("GET", &format!("/containers/json?all=1&filters={filters}"));
    let volumes = ask_engine("GET", &format!("/volumes?filters={filters}"));
    let names = |list: &Value, kind: &str, name: &dyn Fn(&Value) -> String| -> Vec<String> {
        let all = list.as_array().cloned().unwrap_or_default();
        all.iter().map(|one| format!("{kind} {}", name(one))).collect()
    };
    let mut found = names(&containers, "container", &|one| one["Names"][0].to_string());
    found.extend(names(&volumes["Volumes"], "volume", &|one| one["Name"].to_string()));
    found
}

/// The copies of the program that an engine of another machine has for a world.
pub(super) fn programs(world: &World) -> Vec<String> {
    let Ok(id) = fs::read_to_string(world.state_dir().join("docker/id.json")) else {
        return Vec::new();
    };
    let label = format!("dev.hotcell.program={}", id.trim_matches('"'));
    let volumes =
        ask_engine("GET", &format!("/volumes?filters=%7B%22label%22%3A%5B%22{label}%22%5D%7D"));
    let all = volumes["Volumes"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| format!("program {}", one["Name"])).collect()
}

/// The number on the host of the first process of a cell's container.
pub(super) fn first_process(cell: &str) -> i32 {
    let container = ask_engine("GET", &format!("/containers/hotcell-{cell}/json"));
    i32::try_from(container["State"]["Pid"].as_i64().unwrap()).unwrap()
}
