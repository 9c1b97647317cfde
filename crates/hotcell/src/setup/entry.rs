//! One server as its clients are told of it, and how an entry that is there becomes like it.

use serde_json::{Map, Value};

/// How a client reaches the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Server {
    /// The client starts it.
    Stdio { program: String, args: Vec<String> },
    /// It is there already.
    Http {
        url: String,
        /// The variable in which the client finds its token.
        token_variable: Option<String>,
    },
}

/// Fields that only the entry of a server has that the client starts.
const OF_STDIO: &[&str] = &["command", "args", "cwd", "env", "environment", "envFile", "env_vars"];
/// Fields that hold variables of a server that the client starts.
const OF_VARIABLES: &[&str] = &["env", "environment"];
const STATE_DIR: &str = "HOTCELL_STATE_DIR";
/// Fields that say where a server is.
const OF_HTTP: &[&str] = &["url", "httpUrl"];
/// Fields that say who asks: they belong to one place and must not be sent to another.
const OF_AUTHORITY: &[&str] =
    &["headers", "http_headers", "env_http_headers", "bearer_token_env_var", "oauth", "auth"];
const AUTHORIZATION: &str = "Authorization";

/// The fields of an entry, in the order in which they are written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) fields: Vec<(&'static str, Value)>,
}

/// What makes an entry that is there tell the same as another one.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Changes {
    pub(crate) remove: Vec<String>,
    pub(crate) set: Vec<(&'static str, Value)>,
}

impl Entry {
    /// The changes to an entry that is there. What its user added stays, as far as it means
    /// anything to the server it is for now.
    pub(crate) fn changes(&self, there: &Map<String, Value>) -> Changes {
        let is_kept = |key: &str| self.fields.iter().any(|(field, _)| *field == key);
        let place = |get: &dyn Fn(&str) -> Option<Value>| {
            OF_HTTP.iter().find_map(|key| get(key)).unwrap_or(Value::Null)
        };
        let now = place(&|key| self.get(key).cloned());
        // Where the command is one list with its arguments, there are no others.
        let mut stale = vec!["type", "args"];
        stale.extend(OF_HTTP);
        if !now.is_null() {
            stale.extend(OF_STDIO);
        }
        let moved = now.is_null() || now != place(&|key| there.get(key).cloned());
        if moved {
            stale.extend(OF_AUTHORITY);
        }
        let mut remove: Vec<String> = there
            .keys()
            .filter(|key| stale.contains(&key.as_str()) && !is_kept(key))
            .cloned()
            .collect();
        remove.sort();
        let set = self.fields.iter().filter_map(|(key, value)| {
            let wanted = match (value, there.get(*key)) {
                (Value::Object(ours), Some(Value::Object(theirs))) if !moved => {
                    merged(ours, theirs)
                }
                _ => value.clone(),
            };
            (there.get(*key) != Some(&wanted)).then_some((*key, wanted))
        });
        let mut changes = Changes { remove, set: set.collect() };
        for key in OF_VARIABLES {
            match without_state_dir(there.get(*key)) {
                Some(rest) if rest.is_empty() => changes.remove.push((*key).to_owned()),
                Some(rest) if !changes.remove.iter().any(|removed| removed == key) => {
                    changes.set.push((key, Value::Object(rest)));
                }
                Some(_) | None => {}
            }
        }
        changes
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.fields.iter().find(|(field, _)| *field == key).map(|(_, value)| value)
    }
}

/// The other variables of an entry that names a state directory: which one the server uses is said
/// by its arguments, and shown to the user.
fn without_state_dir(variables: Option<&Value>) -> Option<Map<String, Value>> {
    let mut rest = variables?.as_object()?.clone();
    rest.remove(STATE_DIR).map(|_| rest)
}

/// Their headers with ours; names of headers differ by more than case.
fn merged(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> Value {
    let replaced = |name: &str| ours.keys().any(|own| own.eq_ignore_ascii_case(name));
    let kept = theirs.iter().filter(|(name, _)| !replaced(name));
    Value::Object(kept.chain(ours).map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// The headers that send the token which a client finds by this reference.
pub(super) fn bearer(reference: &str) -> Value {
    let token = Value::String(format!("Bearer {reference}"));
    Value::Object(Map::from_iter([(AUTHORIZATION.to_owned(), token)]))
}

/// Reads the name of a server: what every client takes.
pub(crate) fn server_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match !text.is_empty() && text.len() <= 64 && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not 1 to 64 letters, digits, dashes or underscores")),
    }
}

/// Reads the name of an environment variable.
pub(crate) fn variable_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts_well = text.starts_with(|c: char| !c.is_ascii_digit());
    match starts_well && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        // What was given may be the token itself: it is not repeated.
        false => Err("it is not the name of a variable; never write the token itself".to_owned()),
    }
}

/// Reads the address of a server. Without a path it is that of `hotcell serve --http`.
pub(crate) fn http_url(text: &str) -> Result<String, String> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let rest = rest.ok_or("it does not begin with http:// or https://")?;
    let strange = |c: char| !c.is_ascii_graphic() || "\"<>\\^`{|}#".contains(c);
    if let Some(char) = text.chars().find(|c| strange(*c)) {
        return Err(format!("there is no {char:?} in an address"));
    }
    let path_at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(path_at);
    if authority.contains('@') {
        return Err("it holds a password, which would be written to a file; \
                    name the variable of a token with --token-env"
            .to_owned());
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err("it names no host".to_owned());
    }
    Ok(if path.is_empty() { format!("{text}/mcp") } else { text.to_owned() })
}

impl Server {
    /// Whether others than this machine may be asked.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let Self::Http { url, .. } = self else { return false };
        let host = url.split_once("://").map_or("", |(_, rest)| rest);
        let host = host.split(['/', '?']).next().unwrap_or_default();
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        let loops = host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        !loops && !host.eq_ignore_ascii_case("localhost")
    }
}
