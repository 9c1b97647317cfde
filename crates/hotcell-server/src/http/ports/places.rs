//! Where an answer of a service leads its client: never to another part of the server, which the
//! client may call with a token that the service must not have the use of.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a service is, as it is called from outside and as it calls itself.
#[derive(Debug)]
pub(super) struct Home<'a> {
    /// What its paths begin with outside.
    pub(super) prefix: &'a str,
    /// What it was asked for.
    pub(super) target: &'a str,
    /// Where it listens in its cell.
    pub(super) port: u16,
    /// What the server was called.
    pub(super) server: Option<&'a str>,
}

impl Home<'_> {
    /// A place that the service names, as the client is to know it; none that cannot be told for
    /// certain. What is the service's or the server's is below the prefix; what is elsewhere stays
    /// as it is.
    pub(super) fn place(&self, said: &str) -> Option<String> {
        let said = said.trim_matches([' ', '\t']);
        if said.bytes().any(|byte| byte < b' ' || byte == b'\\') {
            // Browsers leave the former out and take the latter for a slash.
            return None;
        }
        let (scheme, rest) = split_scheme(said);
        let is_web = match scheme.as_deref() {
            None => false,
            Some("http" | "https") => true,
            Some(_) => return Some(said.to_owned()),
        };
        match rest.strip_prefix("//") {
            Some(rest) => {
                let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                match self.is_here(scheme.as_deref(), authority)? {
                    true => Some(self.below(path)),
                    false => Some(said.to_owned()),
                }
            }
            // Without a host this means different things to different clients.
            None if is_web => None,
            None if rest.starts_with('/') => Some(self.below(rest)),
            None => Some(self.relative(rest)),
        }
    }

    /// The value of `Refresh`: seconds, and a place.
    pub(super) fn refresh(&self, said: &str) -> Option<String> {
        let said = said.trim();
        let end = said.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let Some(end) = end else { return Some(said.to_owned()) };
        let (seconds, rest) = said.split_at(end);
        let rest = rest.trim_start_matches([' ', '\t', ';', ',']);
        let named = rest.get(..3).filter(|word| word.eq_ignore_ascii_case("url"));
        let named = named.and_then(|_| rest[3..].trim_start().strip_prefix('='));
        let place = named.unwrap_or(rest).trim().trim_matches(['"', '\'']);
        Some(format!("{seconds};url={}", self.place(place)?))
    }

    fn below(&self, path: &str) -> String {
        let (path, rest) = split_path(path);
        let path = without_dots(path);
        let known = path.strip_prefix(self.prefix);
        if known.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            // It knows where it is from the header that says so.
            return format!("{path}{rest}");
        }
        format!("{}{path}{rest}", self.prefix)
    }

    fn relative(&self, said: &str) -> String {
        let ((base, _), (path, _)) = (split_path(self.target), split_path(said));
        if !base.split('/').chain(path.split('/')).any(is_dots) {
            return said.to_owned();
        }
        let directory = match path {
            "" => base,
            _ => base.rfind('/').map_or("/", |at| &base[..=at]),
        };
        self.below(&format!("{directory}{said}"))
    }

    /// Whether this is the service or the server; nothing where clients read it differently.
    fn is_here(&self, scheme: Option<&str>, authority: &str) -> Option<bool> {
        let host = Host::of(authority)?;
        if host.is_local && host.port == Some(self.port) && scheme != Some("https") {
            return Some(true);
        }
        let Some(server) = self.server.and_then(Host::of) else { return Some(false) };
        let usual = |port: Option<u16>| port.is_none_or(|port| port == 80 || port == 443);
        let same_port = host.port == server.port || (usual(host.port) && usual(server.port));
        Some(same_port && (host.is_local || host.name == server.name))
    }
}

/// What an authority names.
struct Host {
    name: String,
    port: Option<u16>,
    is_local: bool,
}

impl Host {
    fn of(authority: &str) -> Option<Self> {
        let host = authority.rsplit('@').next()?.to_ascii_lowercase();
        let (name, port) = match host.rfind(':').filter(|at| !host[*at..].contains(']')) {
            Some(at) => (&host[..at], &host[at + 1..]),
            None => (host.as_str(), ""),
        };
        let port = if port.is_empty() { None } else { Some(port.parse().ok()?) };
        let name = name.trim_end_matches('.');
        if name.is_empty() || name.contains('%') {
            return None;
        }
        let ip = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(inner) => Some(IpAddr::V6(inner.parse::<Ipv6Addr>().ok()?).to_canonical()),
            // `127.1` and `0x7f000001` are addresses to some.
            None if name
                .rsplit('.')
                .next()?
                .starts_with(|letter: char| letter.is_ascii_digit()) =>
            {
                Some(IpAddr::V4(name.parse::<Ipv4Addr>().ok()?))
            }
            None => None,
        };
        let is_local = ip.map_or(name == "localhost" || name.ends_with(".localhost"), |ip| {
            ip.is_loopback() || ip.is_unspecified()
        });
        let name = ip.map_or(name.to_owned(), |ip| ip.to_string());
        Some(Self { name, port, is_local })
    }
}

fn split_scheme(said: &str) -> (Option<String>, &str) {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    match said.split_once(':') {
        Some((scheme, rest))
            if scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && scheme.chars().all(is_part) =>
        {
            (Some(scheme.to_ascii_lowercase()), rest)
        }
        Some(_) | None => (None, said),
    }
}

/// A path, and the query and fragment after it.
fn split_path(text: &str) -> (&str, &str) {
    text.split_at(text.find(['?', '#']).unwrap_or(text.len()))
}

fn is_dots(segment: &str) -> bool {
    is_one_dot(segment) || is_two_dots(segment)
}

fn is_one_dot(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().as_str(), "." | "%2e")
}

fn is_two_dots(segment: &str) -> bool {
    matches!(segment.to_ascii_lowercase().as_str(), ".." | ".%2e" | "%2e." | "%2e%2e")
}

/// A path from the root, with its dots followed.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        if is_two_dots(segment) {
            kept.pop();
        }
        if !is_dots(segment) {
            kept.push(segment);
        } else if segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}
