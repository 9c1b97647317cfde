//! Addresses of engines: what is understood, what is refused, and what stays the same.
use std::path::PathBuf;

use hotcell_model::ErrorCode;

use crate::engine_address::{EngineAddress, EngineSettings, OverTcp, PlainTcp};

fn parsed(text: &str) -> EngineAddress {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn every_kind_of_address_is_understood_and_written_as_it_was() {
    for text in [
        "unix:///var/run/docker.sock",
        "tcp://10.0.0.7:2376",
        "tcp://[fd00::7]:2375",
        "https://engine.example:443",
        "ssh://host",
        "ssh://me@host",
        "ssh://me@host:2222",
        "ssh://[::1]:22",
        "ssh://me@host/run/user/1000/docker.sock",
    ] {
        let address = parsed(text);
        assert_eq!(address.to_string(), text);
        assert_eq!(address.is_remote(), !text.starts_with("unix"), "{text}");
        let json = serde_json::to_string(&address).expect("text");
        assert_eq!(serde_json::from_str::<EngineAddress>(&json).expect("the same"), address);
    }
    assert_eq!(parsed("https://engine.example").to_string(), "https://engine.example:443");
    assert_eq!(parsed("tcp://host:2376/").to_string(), "tcp://host:2376");
}

#[test]
fn what_is_no_address_is_told_with_what_to_write() {
    for text in [
        "",
        "/var/run/docker.sock",
        "unix://docker.sock",
        "tcp://host",
        "tcp://:2376",
        "tcp://host:0",
        "tcp://host:99999",
        "tcp://ho st:1",
        "tcp://[::1:2376",
        "tcp://[::1]2376",
        "ssh://",
        "ssh://-oProxyCommand=id",
        "ssh://-l@host",
        "ssh://me@-oProxyCommand=id",
        "ssh://me;id@host",
        "ssh://host/run/a b.sock",
        "ssh://host/run/$(id).sock",
        "npipe:////./pipe/docker_engine",
        "fd://",
    ] {
        let refused = text.parse::<EngineAddress>().expect_err(text);
        assert_eq!(refused.code, ErrorCode::Invalid, "{text}");
        assert!(refused.message.contains(&format!("{text:?}")), "{refused}");
        assert!(refused.hint.is_some_and(|hint| hint.contains("ssh://")), "{text}");
    }
}

#[test]
fn nobody_is_root_over_a_network_that_everybody_hears() {
    let mut settings = EngineSettings::new("far", parsed("tcp://10.0.0.7:2375"));
    let refused = settings.over_tcp("10.0.0.7").expect_err("no TLS");
    assert_eq!(refused.code, ErrorCode::Denied);
    assert!(refused.message.contains("far at tcp://10.0.0.7:2375"), "{refused}");
    settings.plain_tcp = PlainTcp::Allowed;
    assert_eq!(settings.over_tcp("10.0.0.7").expect("allowed"), OverTcp::Plain);
    settings.plain_tcp = PlainTcp::Refused;
    settings.tls_dir = Some(PathBuf::from("/certs"));
    assert!(matches!(settings.over_tcp("10.0.0.7"), Ok(OverTcp::Tls(_))));

    let here = EngineSettings::new("here", parsed("tcp://127.0.0.1:2375"));
    for host in ["127.0.0.1", "::1", "localhost"] {
        assert_eq!(here.over_tcp(host).expect("this machine"), OverTcp::Plain);
    }
    let site = EngineSettings::new("site", parsed("https://engine.example"));
    assert_eq!(site.over_tcp("engine.example").expect("TLS"), OverTcp::TlsOfHost);
}

#[test]
fn what_is_said_of_an_engine_can_be_handed_on() {
    let mut settings = EngineSettings::new("far", parsed("ssh://me@host:2222"));
    settings.labels.insert("gpu".to_owned(), "yes".to_owned());
    let json = serde_json::to_string(&settings).expect("text");
    assert_eq!(serde_json::from_str::<EngineSettings>(&json).expect("the same"), settings);
}
