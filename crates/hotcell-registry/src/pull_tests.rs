//! How registries are asked that want a token, and that send us elsewhere.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use hotcell_images::{Platform, digest_of};
use hotcell_model::{Digest, ErrorCode, ImageName, Result, Unwatched};

use crate::docker_config::DockerConfig;
use crate::pull::{Registries, RegistrySettings};

const AUTH: &str = "dGVzdGVyOnNlY3JldA==";

/// What a server was asked: the first line, and who asked.
type Asked = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// Serves by HTTP: a first line and the authorization make an answer, head and body.
fn serve(
    answer: impl Fn(&str, Option<&str>) -> (String, Vec<u8>) + Send + 'static,
) -> (u16, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (line, shown) = read(&stream);
            let (head, body) = answer(&line, shown.as_deref());
            noted.lock().unwrap().push((line, shown));
            let mut stream = stream;
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let _ = stream.write_all(&body);
        }
    });
    (port, asked)
}

fn read(stream: &TcpStream) -> (String, Option<String>) {
    let mut lines = BufReader::new(stream).lines().map_while(std::result::Result::ok);
    let first = lines.next().unwrap_or_default();
    let mut shown = None;
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        if let Some(value) = line.strip_prefix("authorization: ") {
            shown = Some(value.to_owned());
        }
    }
    (first, shown)
}

/// An image of one layer, by its parts.
struct Parts {
    layer: Vec<u8>,
    config: Vec<u8>,
    manifest: Vec<u8>,
}

fn parts() -> Parts {
    let layer = tar_of_nothing();
    let architecture = Platform::own().architecture;
    let config = format!(
        r#"{{"architecture":"{architecture}","os":"linux","rootfs":{{"type":"layers","diff_ids":["{}"]}}}}"#,
        digest_of(&layer)
    );
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{}","size":{}}},"layers":[{{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"{}","size":{}}}]}}"#,
        digest_of(config.as_bytes()),
        config.len(),
        digest_of(&layer),
        layer.len()
    );
    Parts { layer, config: config.into_bytes(), manifest: manifest.into_bytes() }
}

fn tar_of_nothing() -> Vec<u8> {
    vec![0; 1024]
}

async fn pull(port: u16, directory: &std::path::Path, auth: Option<&str>) -> Result<Digest> {
    let config = directory.join("docker");
    std::fs::create_dir_all(&config).unwrap();
    if let Some(auth) = auth {
        let text = format!(r#"{{"auths":{{"localhost:{port}":{{"auth":"{auth}"}}}}}}"#);
        std::fs::write(config.join("config.json"), text).unwrap();
    }
    let docker = DockerConfig { directory: Some(config), text: None };
    let registries = Registries::new(RegistrySettings { docker, ..RegistrySettings::default() });
    let name: ImageName = format!("localhost:{port}/a/b:1").parse().unwrap();
    let layout = directory.join("layout");
    registries.pull(&name, &Platform::own(), &layout, &|_| false, &Unwatched).await
}

/// A registry that wants a token, keeps layers elsewhere, and who was asked what.
fn registry() -> (u16, Asked, Asked) {
    let Parts { layer, config, manifest } = parts();
    let config_digest = digest_of(&config).to_string();
    let kept = layer.clone();
    let (elsewhere, asked_elsewhere) = serve(move |_, _| ("200 OK".to_owned(), kept.clone()));
    let own_port = Arc::new(Mutex::new(0));
    let at = Arc::clone(&own_port);
    let (port, asked) = serve(move |line, shown| {
        let port = *at.lock().unwrap();
        if line.contains("/token?") {
            return match shown {
                Some(shown) if shown == format!("Basic {AUTH}") => {
                    ("200 OK".to_owned(), br#"{"token":"good","access_token":"good"}"#.to_vec())
                }
                _ => ("401 Unauthorized".to_owned(), Vec::new()),
            };
        }
        if shown != Some("Bearer good") {
            let challenge = format!(
                "401 Unauthorized\r\nwww-authenticate: Bearer realm=\"http://localhost:{port}/token\",service=\"here\",scope=\"repository:a/b:pull\""
            );
            return (challenge, Vec::new());
        }
        if line.contains("/manifests/") {
            return ("200 OK".to_owned(), manifest.clone());
        }
        if line.contains(&config_digest) {
            return ("200 OK".to_owned(), config.clone());
        }
        (
            format!("307 Temporary Redirect\r\nlocation: http://127.0.0.1:{elsewhere}/layer"),
            Vec::new(),
        )
    });
    *own_port.lock().unwrap() = port;
    (port, asked, asked_elsewhere)
}

#[tokio::test]
async fn a_token_is_had_by_credentials_and_shown_to_nobody_else() {
    let (port, asked, elsewhere) = registry();
    let directory = tempfile::tempdir().unwrap();
    let digest = pull(port, directory.path(), Some(AUTH)).await.unwrap();
    assert_eq!(digest, digest_of(&parts().manifest));
    let asked = asked.lock().unwrap();
    let token = asked.iter().find(|(line, _)| line.contains("/token?")).unwrap();
    assert!(
        token.0.contains("service=here") && token.0.contains("scope=repository%3Aa%2Fb%3Apull"),
        "{token:?}"
    );
    let tokens = asked.iter().filter(|(line, _)| line.contains("/token?")).count();
    assert_eq!(tokens, 1, "a token is good for more than one request: {asked:?}");
    let elsewhere = elsewhere.lock().unwrap();
    assert_eq!(elsewhere.len(), 1);
    assert_eq!(elsewhere[0].1, None, "what is for the registry was shown elsewhere");
    assert!(directory.path().join("layout/index.json").exists());
}

#[tokio::test]
async fn without_credentials_it_is_denied() {
    let (port, ..) = registry();
    let directory = tempfile::tempdir().unwrap();
    let refused = pull(port, directory.path(), None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Denied, "{refused:?}");
    assert!(!directory.path().join("layout/index.json").exists());
}

#[tokio::test]
async fn content_that_is_longer_than_it_should_be_is_refused() {
    let Parts { mut layer, config, manifest } = parts();
    layer.extend_from_slice(b"and more");
    let config_digest = digest_of(&config).to_string();
    let (port, _) = serve(move |line, _| {
        let body = match (line.contains("/manifests/"), line.contains(&config_digest)) {
            (true, _) => manifest.clone(),
            (false, true) => config.clone(),
            (false, false) => layer.clone(),
        };
        ("200 OK".to_owned(), body)
    });
    let directory = tempfile::tempdir().unwrap();
    let refused = pull(port, directory.path(), None).await.unwrap_err();
    assert!(refused.message.contains("longer than"), "{refused:?}");
}

#[tokio::test]
async fn a_registry_that_leads_in_circles_is_left() {
    let own_port = Arc::new(Mutex::new(0));
    let at = Arc::clone(&own_port);
    let (port, asked) = serve(move |_, _| {
        let port = *at.lock().unwrap();
        (format!("307 Temporary Redirect\r\nlocation: http://localhost:{port}/again"), Vec::new())
    });
    *own_port.lock().unwrap() = port;
    let directory = tempfile::tempdir().unwrap();
    let refused = pull(port, directory.path(), None).await.unwrap_err();
    assert!(refused.message.contains("without end"), "{refused:?}");
    assert!(asked.lock().unwrap().len() <= 5);
}

#[tokio::test]
async fn whoever_a_registry_sends_us_to_is_not_told_who_we_are() {
    let (thief_port, thief) = serve(|_, _| ("200 OK".to_owned(), br#"{"token":"x"}"#.to_vec()));
    let (elsewhere, _) = serve(move |_, _| {
        let challenge = format!(
            "401 Unauthorized\r\nwww-authenticate: Bearer realm=\"http://localhost:{thief_port}/token\""
        );
        (challenge, Vec::new())
    });
    let (port, _) = serve(move |_, _| {
        let to = format!("307 Temporary Redirect\r\nlocation: http://127.0.0.1:{elsewhere}/x");
        (to, Vec::new())
    });
    let directory = tempfile::tempdir().unwrap();
    let refused = pull(port, directory.path(), Some(AUTH)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Denied, "{refused:?}");
    assert!(thief.lock().unwrap().is_empty(), "credentials went to whoever asked for them");
}
