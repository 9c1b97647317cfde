//! What a registry wants to see before it answers (`WWW-Authenticate`).

use std::collections::BTreeMap;

/// A way to show who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User and password with each request.
    Basic,
    /// A token, which is had elsewhere.
    Bearer {
        /// Where.
        realm: String,
        /// For whom it is to be.
        service: Option<String>,
        /// What it is to allow.
        scope: Option<String>,
    },
}

impl Challenge {
    /// Reads one; none where it is of a kind that is not known.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut said = parameters(rest);
        Some(Self::Bearer {
            realm: said.remove("realm")?,
            service: said.remove("service"),
            scope: said.remove("scope"),
        })
    }
}

/// `name="value"` pairs with commas between; commas within quotes belong to the value.
fn parameters(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = text.trim();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some((value, left)) => (value, left),
                None => (quoted, ""),
            },
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.insert(name.trim().to_ascii_lowercase(), value.to_owned());
        rest = left.trim_start_matches([',', ' ']);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let bearer = Challenge::parse(
            "Bearer realm=\"https://auth.example.org/token\",service=\"registry\", \
             scope=\"repository:a/b:pull,push\"",
        );
        let expected = Challenge::Bearer {
            realm: "https://auth.example.org/token".to_owned(),
            service: Some("registry".to_owned()),
            scope: Some("repository:a/b:pull,push".to_owned()),
        };
        assert_eq!(bearer, Some(expected));
        assert_eq!(Challenge::parse("basic realm=\"x\""), Some(Challenge::Basic));
        for unknown in ["", "Negotiate", "Bearer", "Bearer service=\"without realm\""] {
            assert_eq!(Challenge::parse(unknown), None, "{unknown}");
        }
    }
}
