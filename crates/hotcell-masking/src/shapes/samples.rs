//! Texts with what has the form of a secret, put together here so that none stands in a file, and
//! texts that have none.

/// A text, the parts of it that must not be shown, and what they are.
pub(super) struct Sample {
    pub(super) text: String,
    pub(super) secrets: Vec<String>,
    pub(super) kind: &'static str,
}

/// Letters and digits that look drawn at random.
pub(super) fn noise(length: usize, alphabet: &str) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ length as u64;
    let draw = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        letters[(state >> 33) as usize % letters.len()]
    };
    (0..length).map(draw).collect()
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HOTCELL: &str = "0123456789abcdefghjkmnpqrstvwxyz";
const HEX: &str = "0123456789abcdef";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn token(begin: &[&str], length: usize, alphabet: &str) -> String {
    format!("{}{}", begin.concat(), noise(length, alphabet))
}

/// Tokens as services give them out, with what they are.
pub(super) fn tokens() -> Vec<(String, &'static str)> {
    let jwt = [
        base64(br#"{"alg":"HS256","typ":"JWT"}"#),
        base64(br#"{"sub":"1234567890","name":"A","iat":1516239022}"#),
        noise(43, ALNUM),
    ];
    vec![
        (token(&["AK", "IA"], 16, UPPER), "aws-access-key"),
        (token(&["AS", "IA"], 16, UPPER), "aws-access-key"),
        (token(&["AI", "za"], 35, ALNUM), "google-api-key"),
        (token(&["ya", "29."], 60, ALNUM), "google-token"),
        (token(&["GOC", "SPX-"], 28, ALNUM), "google-client-secret"),
        (token(&["gh", "p_"], 36, ALNUM), "github-token"),
        (token(&["gh", "o_"], 36, ALNUM), "github-token"),
        (token(&["gh", "u_"], 36, ALNUM), "github-token"),
        (token(&["gh", "s_"], 36, ALNUM), "github-token"),
        (token(&["gh", "r_"], 76, ALNUM), "github-token"),
        (
            format!("{}_{}", token(&["github", "_pat_"], 22, ALNUM), noise(59, ALNUM)),
            "github-token",
        ),
        (token(&["gl", "pat-"], 20, ALNUM), "gitlab-token"),
        (format!("{}_{}", token(&["h", "c_"], 10, HOTCELL), noise(52, HOTCELL)), "hotcell-token"),
        (
            format!("{}-{}", token(&["xo", "xb-"], 11, "0123456789"), noise(24, ALNUM)),
            "slack-token",
        ),
        (token(&["xo", "xp-"], 40, ALNUM), "slack-token"),
        (token(&["sk_", "live_"], 24, ALNUM), "stripe-key"),
        (token(&["sk_", "test_"], 24, ALNUM), "stripe-key"),
        (token(&["rk_", "live_"], 24, ALNUM), "stripe-key"),
        (token(&["wh", "sec_"], 32, ALNUM), "stripe-key"),
        (token(&["sk", "-"], 48, ALNUM), "openai-key"),
        (token(&["sk", "-proj-"], 48, ALNUM), "openai-key"),
        (token(&["sk", "-ant-", "api03-"], 95, ALNUM), "anthropic-key"),
        (token(&["np", "m_"], 36, ALNUM), "npm-token"),
        (token(&["py", "pi-"], 160, ALNUM), "pypi-token"),
        (token(&["h", "f_"], 34, ALNUM), "huggingface-token"),
        (format!("{}.{}", token(&["S", "G."], 22, ALNUM), noise(43, ALNUM)), "sendgrid-key"),
        (token(&["S", "K"], 32, HEX), "twilio-key"),
        (token(&["do", "p_v1_"], 64, HEX), "digitalocean-token"),
        (token(&["AGE-", "SECRET-KEY-1"], 58, UPPER), "private-key"),
        (jwt.join("."), "jwt"),
    ]
}

/// Base64 for addresses.
pub(super) fn base64(bytes: &[u8]) -> String {
    let letters: Vec<char> = format!("{}-_", &BASE64[..62]).chars().collect();
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let whole = group.iter().fold(0u32, |sum, byte| (sum << 8) | u32::from(*byte))
            << (8 * (3 - group.len()));
        for at in 0..=group.len() {
            out.push(letters[(whole >> (18 - 6 * at)) as usize & 63]);
        }
    }
    out
}

/// A private key in lines of 64 letters.
pub(super) fn key(label: &str, line_end: &str) -> String {
    let lines: Vec<String> = (1..6).map(|line| noise(63 + line % 2, BASE64)).collect();
    let dashes = "-".repeat(5);
    format!(
        "{dashes}BEGIN {label}{dashes}{line_end}{}{line_end}{}{line_end}{dashes}END {label}{dashes}",
        lines.join(line_end),
        noise(21, BASE64),
    )
}

fn keys() -> Vec<String> {
    let dashes = "-".repeat(5);
    let body = noise(64, BASE64);
    vec![
        key("PRIVATE KEY", "\n"),
        key("RSA PRIVATE KEY", "\r\n"),
        key("OPENSSH PRIVATE KEY", "\n    "),
        key("EC PRIVATE KEY", "\\n"),
        key("PRIVATE KEY", "\n+"),
        key("PRIVATE KEY", " "),
        format!(
            "{dashes}BEGIN PGP PRIVATE KEY BLOCK{dashes}\nVersion: GnuPG v2.0.22 (GNU/Linux)\n\n{body}\n{body}\n\
             =aB3d\n{dashes}END PGP PRIVATE KEY BLOCK{dashes}"
        ),
        format!(
            "{dashes}BEGIN RSA PRIVATE KEY{dashes}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{}\n\n\
             {body}\n{dashes}END RSA PRIVATE KEY{dashes}",
            noise(32, "0123456789ABCDEF")
        ),
    ]
}

/// Values that their names tell of: what stands around the value, the value, what it is.
fn named() -> Vec<(&'static str, String, &'static str, &'static str)> {
    let aws = format!("/{}+{}", noise(20, ALNUM), noise(18, ALNUM));
    let azure = format!("{}==", noise(86, BASE64));
    let secret = noise(24, ALNUM);
    let hunter = ["hunt", "er2"].concat();
    let mut named = vec![
        ("AWS_SECRET_ACCESS_KEY=", aws.clone(), "\n", "aws-secret-key"),
        ("AWS_ACCESS_KEY_ID=", format!("{hunter}{hunter}"), "\n", "key"),
        ("aws_secret_access_key = ", aws.clone(), "\n", "aws-secret-key"),
        ("\"SecretAccessKey\": \"", aws, "\",", "aws-secret-key"),
        ("AccountName=a;AccountKey=", azure.clone(), ";EndpointSuffix=core.windows.net", "key"),
        ("Endpoint=sb://a.net/;SharedAccessKey=", azure, "\n", "key"),
        (
            "https://a.blob.core.windows.net/c?sv=2024&sig=",
            format!("{}%3D", noise(43, ALNUM)),
            "&se=1",
            "azure-sas",
        ),
        ("DB_PASSWORD=", hunter.clone(), "\n", "password"),
        ("PGPASSWORD=", hunter.clone(), " psql", "password"),
        ("password=", hunter.clone(), "&user=a", "password"),
        ("password: ", hunter.clone(), "\n", "password"),
        ("\"password\": \"", hunter.clone(), "\"}", "password"),
        ("{\\\"password\\\":\\\"", hunter.clone(), "\\\"}", "password"),
        ("'password': '", hunter.clone(), "'", "password"),
        ("mysql --password=", hunter.clone(), " db", "password"),
        ("curl --proxy-password ", hunter.clone(), " http", "password"),
        ("\u{1b}[33mPASSWORD\u{1b}[0m=\u{1b}[32m", hunter.clone(), "\u{1b}[0m", "password"),
        ("SMTP_PASS=", hunter.clone(), "\n", "password"),
        ("MYSQL_PWD=", hunter.clone(), "\n", "password"),
        ("passphrase = \"", "correct-horse".to_owned(), "\"", "password"),
        ("MY_SECRET=", secret.clone(), "\n", "secret"),
        ("client_secret: ", secret.clone(), "\n", "secret"),
        ("\"clientSecret\":\"", secret.clone(), "\"", "secret"),
        ("API_KEY=", secret.clone(), "\n", "key"),
        ("apiKey: '", secret.clone(), "',", "key"),
        ("x-api-key: ", secret.clone(), "\r\n", "key"),
        ("ACCESS_TOKEN=", secret.clone(), "\n", "token"),
        ("//registry.example/:_authToken=", secret.clone(), "\n", "token"),
        ("token = \"", secret.clone(), "\"", "token"),
        ("SECRET_KEY_BASE=", secret.clone(), "\n", "secret"),
        ("azure_credentials: ", secret.clone(), "\n", "credential"),
        ("Authorization: Bearer ", secret.clone(), "\r\n", "authorization"),
        ("authorization: Basic ", format!("{}==", noise(22, ALNUM)), "\n", "authorization"),
        ("Authorization: token ", secret.clone(), "\n", "authorization"),
        ("\"Authorization\": \"Bearer ", secret.clone(), "\"", "authorization"),
        ("Proxy-Authorization: ", secret.clone(), "\n", "authorization"),
        ("curl -H 'authorization: Bearer ", secret.clone(), "' http", "authorization"),
        ("> bearer ", secret.clone(), "\n", "authorization"),
    ];
    let host = "@db.example:5432/app";
    for scheme in ["postgres://app:", "redis://:", "amqp://u:", "mongodb+srv://u:", "https://u:"] {
        named.push((scheme, hunter.clone(), host, "password"));
    }
    named.push(("mysql://u:", format!("p@ss{hunter}"), host, "password"));
    let hook = format!("services/T{}/B{}/{}", noise(8, UPPER), noise(8, UPPER), secret);
    named.push(("https://hooks.slack.com/", hook, "\n", "slack-webhook"));
    named
}

/// Every form that is known, in what may stand around it.
pub(super) fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (token, kind) in tokens() {
        let around = [
            ("", ""),
            ("x ", " y\n"),
            ("a=\"", "\"\n"),
            ("\u{1b}[1m", "\u{1b}[0m"),
            ("\\n", "\\n"),
            ("=", ","),
        ];
        for (before, after) in around {
            let text = format!("{before}{token}{after}");
            samples.push(Sample { text, secrets: vec![token.clone()], kind });
        }
    }
    for key in keys() {
        // None of its lines.
        let lines = key
            .split(['\n', '\\', ' '])
            .map(|line| line.trim_start_matches(['n', '+', ' ']).trim());
        let secrets =
            lines.filter(|line| line.len() > 20 && !line.contains('-')).map(str::to_owned);
        let secrets: Vec<String> = secrets.collect();
        for (before, after) in
            [("", ""), ("cat key\n", "\ndone.\n"), ("\"private_key\": \"", "\\n\",")]
        {
            let text = format!("{before}{key}{after}");
            samples.push(Sample { text, secrets: secrets.clone(), kind: "private-key" });
        }
    }
    for (before, value, after, kind) in named() {
        for start in ["", "\n  ", "export "] {
            let text = format!("{start}{before}{value}{after}");
            samples.push(Sample { text, secrets: vec![value.clone()], kind });
        }
    }
    samples
}

/// Lines in which nothing is a secret.
pub(super) const INNOCENT: &[&str] = &[
    "token_count=5",
    "max_tokens: 4096",
    "tokenizer=bpe",
    "tokens=100000",
    "PASSWORD=",
    "password: null",
    "password=${PASSWORD}",
    "PASSWORD=$DB_PASSWORD",
    "password: <password>",
    "password=***",
    "password=********",
    "secret: true",
    "secret=false",
    "\"password\": \"\"",
    "Enter password: ",
    "Password for user a: ",
    "error: unexpected token: expected identifier",
    "error: invalid token `;`",
    "let token = lexer.next_token();",
    "token: String,",
    "fn check(password: &str) -> bool {",
    "password == other",
    "self.password = password",
    "api_key=os.environ[\"API_KEY\"]",
    "secret = config.secret.value",
    "token = self.token",
    "use crate::token::Token;",
    "use of secret::Key",
    "PWD=/home/user/project",
    "OLDPWD=/tmp",
    "publicKey: AAAAB3NzaC1yc2E12345",
    "primary_key=id",
    "KeyError: 'password'",
    "cache-key: v1-linux-deadbeef12345678",
    "key: value1234567890",
    "foreign_key: user_id1",
    "https://docs.rs/regex/1.0/regex/",
    "http://localhost:8080/path@2",
    "https://user@host/path",
    "git@github.com:a/b.git",
    "http://[::1]:8080/",
    "postgres://user:password@localhost/db",
    "postgres://user:$PASS@localhost/db",
    "redis://:<password>@host",
    "https://github.com/a/b/blob/main/src/token.rs#L1",
    "SK_FOO",
    "task-runner-name-that-is-long-12",
    "disk-usage-monitor-with-long-names-0123456789abcdef",
    "sk-fading-circle sk-circle1 sk-circle12",
    "npm_config_registry=https://x",
    "npm_package_version=1.2.3",
    "hf_hub_download",
    "ghp_short",
    "SG.foo.bar",
    "eyJ is how they begin",
    "eyJhbGciOiJ",
    "AKIA is a prefix",
    "pypi-attestations==0.0.12",
    "xoxb-your-token",
    "-----BEGIN PRIVATE KEY-----",
    "if text.contains(\"-----BEGIN RSA PRIVATE KEY-----\") {",
    "-----BEGIN CERTIFICATE-----\nMIIBszCCARwCAQ",
    "Authorization: Bearer <token>",
    "Authorization: Bearer $TOKEN",
    "bearer authentication failed",
    "Authorization required",
    "the bearer of this",
    "--password PASSWORD  the password to use",
    "--token TOKEN",
    "--api-key KEY",
    "your_api_key=your-api-key-here",
    "API_KEY=your_api_key_1234",
    "token=<TOKEN>",
    "client_secret={{ secret }}",
    "PASSWORD=%PASSWORD%",
    "password=%s",
    "token=0x7ffd5a8c12345678",
    "secretName: my-app-secret-1",
    "passwords.txt",
    "credentials: /home/user/.aws/credentials1",
    "token: ...",
    "password: xxxxxxxx",
    "PASS  src/auth.test.js",
    "12 passed; 0 failed",
    "test password_is_checked1 ... ok",
    "warning: unused variable: `token`",
    "   Compiling secrecy v0.10.3",
    "   Compiling tokio v1.48.0",
    "Installing collected packages: tokenizers-0.21.4",
    "cc -c passwd.c -o passwd.o",
    "integrity sha512-abcDEF0123456789abcDEF0123456789abcDEF0123456789abcDEF0123456789abcDEF01==",
    "commit d670460b4b4aece5915caf5c68d12f560a9fe3e4",
    "uuid: 123e4567-e89b-12d3-a456-426614174000",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "PASSWORD=[REDACTED:password]",
    "Authorization: Bearer [REDACTED:authorization]",
    "postgres://u:[REDACTED:password]@h/db",
    "[REDACTED:github-token]",
    "token=[REDACTED:token] and more",
    "\"password\": \"must be at least 8 characters\"",
    "\"token\": \"identifier\"",
    "password: str = None",
    "secret: [u8; 32],",
    "api_key: Option<String>",
    "POST /token HTTP/1.1",
    "pub const INET6_TOKEN: _bindgen_ty_7 = _bindgen_ty_7::INET6_TOKEN;",
    "username, password = index_url_user_password",
    "OID.CHALLENGE_PASSWORD: \"challengePassword\",",
    "- Bearer https://tools.ietf.org/html/rfc6750",
    "authorization = base64.decodebytes(authorization)",
];
