//! Secrets in the words of the original: what the engine has masked, values of variables whose names
//! say that they are secret, and the ends of private keys.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What the engine puts in the place of a secret begins so.
const MARKER: &str = "[REDACTED:";
const HIDDEN: &str = "[REDACTED]";
const HIDDEN_KEY: &str = "[REDACTED PRIVATE KEY]";

/// A variable with a value, in quotes or without.
static ASSIGNED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"\b([A-Z][A-Z0-9_]*)=("[^"\n]*"|'[^'\n]*'|[^\s"';&|]+)"#));
/// Names of variables with a secret in them.
static SECRET_NAME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        "(PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIALS?)[0-9]*$|\
         (^|_)(API|ACCESS|SECRET|PRIVATE|AUTH|ENCRYPTION|SIGNING|MASTER|ACCOUNT)_?KEY(_ID)?$|\
         [A-Z0-9]_?(PASS|PWD|AUTH)$",
    )
});
/// The last lines of a private key whose beginning is not shown.
static KEY_END: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?m)(?:^[A-Za-z0-9+/=]{4,}\r?\n)*^-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----")
});

#[expect(clippy::expect_used, reason = "the patterns are constants, and tests compile them")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// A text as the original shows it: only for private keys does it say what kind of secret it was.
pub(super) fn redacted(text: &str) -> String {
    let text = in_words_of_the_original(text);
    let text = KEY_END.replace_all(&text, HIDDEN_KEY);
    ASSIGNED.replace_all(&text, without_secret_value).into_owned()
}

fn without_secret_value(found: &Captures<'_>) -> String {
    let (whole, name, value) = (&found[0], &found[1], found[2].trim_matches(['"', '\'']));
    // The directories that shells keep in variables.
    let is_directory = matches!(name, "PWD" | "OLDPWD");
    let is_other = value.is_empty() || value.starts_with('$') || value.starts_with("[REDACTED");
    if is_directory || is_other || !SECRET_NAME.is_match(name) {
        return whole.to_owned();
    }
    format!("{name}={HIDDEN}")
}

fn in_words_of_the_original(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, marked)) = rest.split_once(MARKER) {
        shown.push_str(before);
        let Some((kind, after)) = marked.split_once(']').filter(|(kind, _)| is_kind(kind)) else {
            shown.push_str(MARKER);
            rest = marked;
            continue;
        };
        shown.push_str(if kind.contains("private") { HIDDEN_KEY } else { HIDDEN });
        rest = after;
    }
    shown.push_str(rest);
    shown
}

fn is_kind(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-:.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::redacted;

    #[test]
    fn markers_are_those_of_the_original() {
        assert_eq!(redacted("K=[REDACTED:github_token] x"), "K=[REDACTED] x");
        assert_eq!(redacted("[REDACTED:private_key]"), "[REDACTED PRIVATE KEY]");
        assert_eq!(
            redacted("[REDACTED: no marker] [REDACTED:"),
            "[REDACTED: no marker] [REDACTED:"
        );
    }

    #[test]
    fn values_are_hidden_by_the_names_of_their_variables() {
        for (text, shown) in [
            ("AWS_ACCESS_KEY_ID=hunter2hunter2", "AWS_ACCESS_KEY_ID=[REDACTED]"),
            ("PASSWORD=abc\nX=1", "PASSWORD=[REDACTED]\nX=1"),
            ("export DB_PASSWORD='a b' X=1", "export DB_PASSWORD=[REDACTED] X=1"),
            ("TOKEN=\"none\"; y", "TOKEN=[REDACTED]; y"),
            ("PGPASSWORD=x MYSQL_PWD=y", "PGPASSWORD=[REDACTED] MYSQL_PWD=[REDACTED]"),
            ("APIKEY=x OPENAI_API_KEY=y", "APIKEY=[REDACTED] OPENAI_API_KEY=[REDACTED]"),
        ] {
            assert_eq!(redacted(text), shown);
        }
        for text in [
            "PWD=/workspace OLDPWD=/tmp",
            "PASSWORD= x",
            "PASSWORD=$OTHER",
            "KEY=value MONKEY=x",
            "the PASSWORD = x, token=abc",
            "PASSWORD=[REDACTED]",
            "TOKENIZER=x PASSED=3 SECRETARY=y",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn the_end_of_a_private_key_is_hidden() {
        let body = format!("{}\n{}\nshort==\n", "Ab+/".repeat(16), "Cd12".repeat(16));
        for kind in ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY"] {
            let text = format!("before:\n{body}-----END {kind}-----\nafter\n");
            assert_eq!(redacted(&text), "before:\n[REDACTED PRIVATE KEY]\nafter\n");
        }
        let public = format!("{body}-----END CERTIFICATE-----\n");
        assert_eq!(redacted(&public), public);
    }
}
