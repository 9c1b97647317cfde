//! Callers with tokens of an issuer, which is a process of its own with keys of its own.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::world::{HttpAnswer, HttpServer, Issuer, Sent, World, eventually};

in_worlds! {
    [root]
    a_token_of_the_issuer_opens_every_door,
    each_way_to_sign_is_known,
    tokens_that_are_wrong_in_any_way_are_refused,
    what_a_token_does_not_allow_is_refused_with_what_it_lacks,
    keys_that_are_taken_back_end_and_new_ones_begin,
    an_issuer_that_is_away_stops_only_what_is_new,
    a_token_that_is_over_cannot_be_used_again_and_ends_what_it_opened,
    clients_find_out_where_to_get_a_token,
    a_session_is_not_shared_between_callers,
    settings_that_would_let_anybody_in_are_refused,
    an_issuer_is_believed_by_its_certificate_alone,
    an_issuer_that_tells_too_much_or_nothing_holds_nobody_up,
    what_a_token_says_may_be_written_in_each_way_that_issuers_do,
}

const AUDIENCE: &str = "https://cells.example.org/mcp";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn start(world: &World, issuer: &Issuer, more: &[(&str, &str)]) -> HttpServer {
    let mut variables = vec![
        ("HOTCELL_AUTH_OIDC_ISSUER", issuer.url.as_str()),
        ("HOTCELL_AUTH_OIDC_AUDIENCE", AUDIENCE),
        ("HOTCELL_AUTH_OIDC_LEEWAY_S", "0"),
    ];
    variables.extend(more);
    HttpServer::start_with(world, &[], &variables)
}

fn claims(issuer: &Issuer) -> Value {
    json!({
        "iss": issuer.url, "aud": AUDIENCE, "sub": "ada", "tenant": "main", "iat": now() - 1,
        "exp": now() + 3600, "scope": "hotcell:read hotcell:run hotcell:metrics",
    })
}

fn with(issuer: &Issuer, name: &str, value: Value) -> Value {
    let mut claims = claims(issuer);
    claims[name] = value;
    claims
}

fn bearing(sent: Sent, token: &str) -> Sent {
    sent.with("authorization", &format!("Bearer {token}"))
}

/// Asks for something that needs to read, over `/v1`.
#[track_caller]
fn look(server: &HttpServer, token: &str) -> HttpAnswer {
    server.ask(&bearing(Sent::get("/v1/cells"), token))
}

fn a_token_of_the_issuer_opens_every_door(world: &World) {
    let Some(issuer) = Issuer::start(world, &json!({ "a": "p256" })) else { return };
    let server = start(world, &issuer, &[]);
    let token = issuer.sign("a", &claims(&issuer));
    look(&server, &token).is(200);
    server.ask(&bearing(Sent::get("/metrics"), &token)).is(200);
    let run = Sent::tool("exec_run", json!({ "command": "echo by a token" }));
    let ran = server.ask(&bearing(run.clone(), &token)).is(200);
    assert_eq!(ran.tool_result()["stdout"], "by a token\n");
    server.ask(&run).is(401);
    server.ask(&Sent::get("/health")).is(200);
    server.ask(&Sent::get("/ready")).is(200);
    // Another caller has another cell.
    let other = issuer.sign("a", &with(&issuer, "sub", json!("bob")));
    let ran_by_other = server.ask(&bearing(run, &other)).is(200);
    assert_ne!(ran.tool_result()["cell"], ran_by_other.tool_result()["cell"]);
}

fn each_way_to_sign_is_known(world: &World) {
    let keys = json!({ "r": "rsa", "p": "p256", "q": "p384", "e": "ed25519", "w": "weak" });
    let Some(issuer) = Issuer::start(world, &keys) else { return };
    let server = start(world, &issuer, &[]);
    let signed = |key: &str, algorithm: &str| {
        let claims = claims(&issuer);
        let order = json!({ "do": "sign", "key": key, "claims": claims, "algorithm": algorithm });
        issuer.token(&order)
    };
    for algorithm in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"] {
        look(&server, &signed("r", algorithm)).is(200);
    }
    for (key, algorithm) in [("p", "ES256"), ("q", "ES384"), ("e", "EdDSA")] {
        look(&server, &signed(key, algorithm)).is(200);
    }
    look(&server, &signed("w", "RS256")).is(401);
    drop(server);
    let fewer = start(world, &issuer, &[("HOTCELL_AUTH_OIDC_ALGORITHMS", "ES256")]);
    look(&fewer, &signed("p", "ES256")).is(200);
    look(&fewer, &signed("r", "RS256")).is(401);
}

fn tokens_that_are_wrong_in_any_way_are_refused(world: &World) {
    let Some(issuer) = Issuer::start(world, &json!({ "a": "rsa", "b": "p256" })) else { return };
    let Some(stranger) = Issuer::start(world, &json!({ "a": "rsa" })) else { return };
    let server = start(world, &issuer, &[]);
    let good = issuer.sign("a", &claims(&issuer));
    look(&server, &good).is(200);
    let sign = |name: &str, value: Value| issuer.sign("a", &with(&issuer, name, value));
    let parts: Vec<&str> = good.split('.').collect();
    let admin = sign("scope", json!("hotcell:admin"));
    let tampered = format!("{}.{}.{}", parts[0], admin.split('.').nth(1).unwrap(), parts[2]);
    let head = |head: Value| {
        issuer.token(&json!({ "do": "sign", "key": "a", "claims": claims(&issuer), "head": head }))
    };
    let forged =
        |how: &str| issuer.token(&json!({ "do": "forge", "how": how, "claims": claims(&issuer) }));
    let wrong = [
        ("over", sign("exp", json!(now() - 1))),
        ("without an end", sign("exp", json!(null))),
        ("not yet", sign("nbf", json!(now() + 600))),
        ("of the future", sign("iat", json!(now() + 600))),
        ("for another", sign("aud", json!("https://other.example.org"))),
        ("for nobody", sign("aud", json!([]))),
        ("by another, as it says", sign("iss", json!("https://other.example.org"))),
        ("by another, who signs", stranger.sign("a", &claims(&issuer))),
        ("of nobody", sign("sub", json!(""))),
        ("without a tenant", sign("tenant", json!(null))),
        ("signed by none", forged("none")),
        ("signed with the public key", forged("hs256")),
        ("with an unknown key", head(json!({ "kid": "x" }))),
        ("with the key of another algorithm", head(json!({ "kid": "b" }))),
        ("of another kind", head(json!({ "typ": "dpop+jwt" }))),
        ("with an extension", head(json!({ "crit": ["x"], "x": 1 }))),
        ("tampered with", tampered),
        ("without a signature", format!("{}.{}.", parts[0], parts[1])),
    ];
    let mut answers = std::collections::BTreeSet::new();
    for (what, token) in &wrong {
        let over_v1 = look(&server, token);
        assert_eq!(over_v1.status, 401, "{what}: {over_v1:?}");
        let challenge = over_v1.header("www-authenticate").unwrap();
        assert!(challenge.contains(r#"error="invalid_token""#), "{what}: {challenge}");
        answers.insert(over_v1.body.clone());
        let over_mcp = server.ask(&bearing(Sent::tool("cell_list", json!({})), token));
        assert_eq!(over_mcp.status, 401, "{what}: {over_mcp:?}");
    }
    // Nothing in the answer says what would have to be different.
    assert_eq!(answers.len(), 1, "{answers:?}");
    // Nor does the log hold a token, however many came.
    look(&server, &good).is(200);
    let said = server.live.said();
    assert!(wrong.iter().all(|(_, token)| !said.contains(token.as_str())), "{said}");
    assert!(said.matches("callers were not let in").count() <= 3, "{said}");
}

fn what_a_token_does_not_allow_is_refused_with_what_it_lacks(world: &World) {
    let Some(issuer) = Issuer::start(world, &json!({ "a": "ed25519" })) else { return };
    let roles = [
        ("HOTCELL_AUTH_OIDC_ROLE_CLAIM", "groups"),
        ("HOTCELL_AUTH_OIDC_ROLES", "auditors=auditor,*=agent"),
    ];
    let server = start(world, &issuer, &roles);
    let scoped = |scope: &str| issuer.sign("a", &with(&issuer, "scope", json!(scope)));
    let is_lacking = |answer: HttpAnswer, scope: &str| {
        let challenge = answer.clone().is(403).header("www-authenticate").unwrap().to_owned();
        assert!(challenge.contains(r#"error="insufficient_scope""#), "{challenge}");
        assert!(challenge.contains(scope), "{challenge}");
    };
    let none = scoped("openid profile");
    is_lacking(look(&server, &none), "hotcell:read");
    is_lacking(server.ask(&bearing(Sent::get("/metrics"), &none)), "hotcell:metrics");
    is_lacking(server.ask(&bearing(Sent::tool("cell_list", json!({})), &none)), "hotcell:read");
    let reader = scoped("hotcell:read");
    look(&server, &reader).is(200);
    is_lacking(server.ask(&bearing(Sent::post("/v1/cells", &json!({})), &reader)), "hotcell:run");
    let put = Sent::put("/v1/cells/default/files/x", "x");
    is_lacking(server.ask(&bearing(put, &reader)), "hotcell:run");
    is_lacking(server.ask(&bearing(Sent::get("/cells/x/ports/80/"), &reader)), "hotcell:run");
    // A tool says so in its own words.
    let run = Sent::tool("exec_run", json!({ "command": "true" }));
    let denied = server.ask(&bearing(run, &reader)).is(200).json();
    assert_eq!(denied["result"]["isError"], true, "{denied}");
    assert_eq!(denied["result"]["_meta"]["hotcell/error"]["code"], "denied", "{denied}");
    // A scope does not go beyond the role.
    let mut auditor = with(&issuer, "groups", json!(["staff", "auditors"]));
    auditor["scope"] = json!("hotcell:read hotcell:run hotcell:metrics hotcell:audit");
    let auditor = issuer.sign("a", &auditor);
    server.ask(&bearing(Sent::get("/metrics"), &auditor)).is(200);
    is_lacking(look(&server, &auditor), "hotcell:read");
    is_lacking(server.ask(&bearing(Sent::tool("cell_list", json!({})), &auditor)), "hotcell:read");
}

fn keys_that_are_taken_back_end_and_new_ones_begin(world: &World) {
    let Some(issuer) = Issuer::start(world, &json!({ "old": "p256", "new": "p256" })) else {
        return;
    };
    issuer.order(&json!({ "do": "show", "keys": ["old"] }));
    let server = start(world, &issuer, &[("HOTCELL_AUTH_OIDC_KEYS_S", "1")]);
    let old = issuer.sign("old", &claims(&issuer));
    let new = issuer.sign("new", &claims(&issuer));
    look(&server, &old).is(200);
    look(&server, &new).is(401);
    issuer.order(&json!({ "do": "show", "keys": ["old", "new"] }));
    eventually("the new key is known", || look(&server, &new).status == 200);
    look(&server, &old).is(200);
    issuer.order(&json!({ "do": "show", "keys": ["new"] }));
    eventually("the old key is taken back", || look(&server, &old).status == 401);
    look(&server, &new).is(200);
    // Tokens that name keys which do not exist do not make us ask each time.
    drop(server);
    let server = start(world, &issuer, &[]);
    look(&server, &new).is(200);
    let before = issuer.order(&json!({ "do": "count" }))["count"].as_u64().unwrap();
    for _ in 0..20 {
        look(&server, &old).is(401);
    }
    let after = issuer.order(&json!({ "do": "count" }))["count"].as_u64().unwrap();
    assert!(after - before <= 3, "asked {} times", after - before);
}

fn an_issuer_that_is_away_stops_only_what_is_new(world: &World) {
    let Some(issuer) = Issuer::start(world, &json!({ "a": "p256", "b": "p256" })) else { return };
    issuer.order(&json!({ "do": "show", "keys": ["a"] }));
    let server = start(world, &issuer, &[("HOTCELL_AUTH_OIDC_KEYS_S", "1")]);
    let (known, unknown) = (issuer.sign("a", &claims(&issuer)), issuer.sign("b", &claims(&issuer)));
    look(&server, &known).is(200);
    issuer.order(&json!({ "do": "away" }));
    eventually("the issuer is missed", || look(&server, &unknown).status == 503);
    assert!(look(&server, &unknown).header("retry-after").is_some());
    look(&server, &known).is(200);
    issuer.order(&json!({ "do": "show", "keys": ["a", "b"] }));
    issuer.order(&json!({ "do": "back" }));
    eventually("the issuer is back", || look(&server, &unknown).status == 200);
    // A server that never met its issuer knows nobody, and says that this may change.
    drop(server);
    issuer.order(&json!({ "do": "away" }));
    let server = start(world, &issuer, &[]);
    look(&server, &known).is(503);
    server.ask(&Sent::get("/health")).is(200);
}

fn a_token_that_is_over_cannot_be_used_again_and_ends_what_it_opened(world: &World) {
    let Some(issuer) = Issuer::start(world, &json!({ "a": "ed25519" })) else { return };
    let server = start(world, &issuer, &[]);
    let lasting = issuer.sign("a", &claims(&issuer));
    let run = json!({ "command": "while :; do echo on; sleep 0.2; done", "wait_s": 0 });
    let began = server.ask(&bearing(Sent::tool("exec_run", run), &lasting)).is(200).tool_result();
    let stream = format!("/v1/execs/{}/stream", began["exec_id"].as_str().unwrap());
    let short = issuer.sign("a", &with(&issuer, "exp", json!(now() + 6)));
    let mut open = server.send(&bearing(Sent::get(&stream), &short));
    assert_eq!(open.head().unwrap().status, 200);
    assert!(open.chunk().is_some());
    // It breaks off: there is no end to what it tells of.
    assert_eq!(open.rest(), None);
    look(&server, &short).is(401);
    look(&server, &short).is(401);
    look(&server, &lasting).is(200);
}

fn clients_find_out_where_to_get_a_token(world: &World) {
    let Some(issuer) = Issuer::start(world, &json!({ "a": "ed25519" })) else { return };
    let server = start(world, &issuer, &[]);
    let asked = server.ask(&Sent::tool("cell_list", json!({}))).is(401);
    let challenge = asked.header("www-authenticate").unwrap();
    assert!(challenge.starts_with("Bearer "), "{challenge}");
    assert!(!challenge.contains("error="), "{challenge}");
    assert!(challenge.contains(r#"scope="hotcell:read hotcell:run""#), "{challenge}");
    let (_, after) = challenge.split_once(r#"resource_metadata="http://localhost"#).unwrap();
    let place = after.split('"').next().unwrap();
    assert_eq!(place, "/.well-known/oauth-protected-resource/mcp");
    let described = server.ask(&Sent::get(place)).is(200).json();
    assert_eq!(described["resource"], "http://localhost/mcp");
    assert_eq!(described["authorization_servers"], json!([issuer.url]));
    assert_eq!(described["bearer_methods_supported"], json!(["header"]));
    assert!(described["scopes_supported"].as_array().unwrap().contains(&json!("hotcell:run")));
    let root = server.ask(&Sent::get("/.well-known/oauth-protected-resource")).is(200).json();
    assert_eq!(root["resource"], "http://localhost");
    server.ask(&Sent::get("/.well-known/oauth-protected-resource/other")).is(401);
    server.ask(&Sent::get(place).with("host", "evil.example.org")).is(403);
    drop(server);
    let resource = [("HOTCELL_AUTH_OIDC_RESOURCE", AUDIENCE)];
    let server = start(world, &issuer, &resource);
    let described = server.ask(&Sent::get(place)).is(200).json();
    assert_eq!(described["resource"], AUDIENCE);
    let asked = server.ask(&Sent::get("/v1/cells")).is(401);
    let at =
        r#"resource_metadata="https://cells.example.org/.well-known/oauth-protected-resource/mcp""#;
    assert!(asked.header("www-authenticate").unwrap().contains(at), "{asked:?}");
    drop(server);
    // Where there is no issuer there is nothing to describe.
    HttpServer::start(world).ask(&Sent::get(place)).is(404);
}

fn a_session_is_not_shared_between_callers(world: &World) {
    let Some(issuer) = Issuer::start(world, &json!({ "a": "ed25519" })) else { return };
    let server = start(world, &issuer, &[]);
    let ada = issuer.sign("a", &claims(&issuer));
    let later = issuer.sign("a", &with(&issuer, "exp", json!(now() + 7200)));
    let bob = issuer.sign("a", &with(&issuer, "sub", json!("bob")));
    let elsewhere = issuer.sign("a", &with(&issuer, "tenant", json!("other")));
    let session = server.open_session_with(&ada);
    let list = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/list" });
    let list = Sent::message(&list).with("mcp-session-id", &session);
    server.ask(&bearing(list.clone(), &ada)).is(200);
    // The next token of the same caller is good for it as well.
    server.ask(&bearing(list.clone(), &later)).is(200);
    for other in [&bob, &elsewhere] {
        server.ask(&bearing(list.clone(), other)).is(404);
        let end = Sent::delete("/mcp").with("mcp-session-id", &session);
        // Whatever is answered, it ends nothing.
        server.ask(&bearing(end, other));
        server.ask(&bearing(list.clone(), &ada)).is(200);
    }
    server.ask(&list).is(401);
    // What a message may is what its own token may, whoever opened the session.
    let reader = issuer.sign("a", &with(&issuer, "scope", json!("hotcell:read")));
    let run = json!({
        "jsonrpc": "2.0", "id": 4, "method": "tools/call",
        "params": { "name": "exec_run", "arguments": { "command": "true" } },
    });
    let run = Sent::message(&run).with("mcp-session-id", &session);
    let denied = server.ask(&bearing(run.clone(), &reader)).is(200).json();
    assert_eq!(denied["result"]["isError"], true, "{denied}");
    let ran = server.ask(&bearing(run, &ada)).is(200);
    assert_eq!(ran.tool_result()["exit_code"], 0);
}

fn settings_that_would_let_anybody_in_are_refused(world: &World) {
    let refused = |variables: &[(&str, &str)], word: &str| {
        let mut serve = world.hotcell(["serve", "--http", "127.0.0.1:0"]);
        for (name, value) in variables {
            serve = serve.env(name, value);
        }
        let said = serve.run().exited(2).stderr();
        assert!(said.contains(word), "{said}");
    };
    let issuer = ("HOTCELL_AUTH_OIDC_ISSUER", "https://id.example.org");
    refused(&[issuer], "auth.oidc.audience");
    refused(&[("HOTCELL_AUTH_OIDC_ISSUER", "http://id.example.org")], "https");
    for algorithm in ["none", "HS256", "RS256,HS512"] {
        refused(&[issuer, ("HOTCELL_AUTH_OIDC_ALGORITHMS", algorithm)], "ALGORITHMS");
    }
}

fn an_issuer_is_believed_by_its_certificate_alone(world: &World) {
    let [own, other] = ["own", "other"].map(|name| world.home().join(name));
    let Some(issuer) = Issuer::start_tls(world, &own, "127.0.0.1") else { return };
    let Some(misnamed) = Issuer::start_tls(world, &other, "id.example.org") else { return };
    assert!(issuer.url.starts_with("https://"), "{}", issuer.url);
    let file = |directory: &std::path::Path| directory.join("ca.pem").display().to_string();
    let asked = |issuer: &Issuer, authority: Option<&str>| {
        let more = authority.map(|file| ("HOTCELL_AUTH_OIDC_CA_FILE", file));
        let server = start(world, issuer, more.as_slice());
        let answered = look(&server, &issuer.sign("a", &claims(issuer))).status;
        (answered, server)
    };
    assert_eq!(asked(&issuer, Some(&file(&own))).0, 200);
    // By nobody whom this machine knows, by somebody else, and for another name.
    for (issuer, authority) in
        [(&issuer, None), (&issuer, Some(file(&other))), (&misnamed, Some(file(&other)))]
    {
        let (status, server) = asked(issuer, authority.as_deref());
        assert_eq!(status, 503, "{}", server.live.said());
        eventually("it says why", || server.live.said().contains("certificate"));
    }
    // A file that is none does not leave everybody trusted.
    let none = world.home().join("none.pem").display().to_string();
    assert_eq!(asked(&issuer, Some(&none)).0, 503);
}

fn an_issuer_that_tells_too_much_or_nothing_holds_nobody_up(world: &World) {
    let Some(issuer) = Issuer::start(world, &json!({ "a": "p256", "b": "p256" })) else { return };
    issuer.order(&json!({ "do": "show", "keys": ["a"] }));
    issuer.order(&json!({ "do": "keys", "are": "huge" }));
    let server = start(world, &issuer, &[("HOTCELL_AUTH_OIDC_KEYS_S", "1")]);
    let (known, new) = (issuer.sign("a", &claims(&issuer)), issuer.sign("b", &claims(&issuer)));
    look(&server, &known).is(503);
    issuer.order(&json!({ "do": "keys", "are": "plain" }));
    eventually("its keys are read", || look(&server, &known).status == 200);
    issuer.order(&json!({ "do": "show", "keys": ["a", "b"] }));
    issuer.order(&json!({ "do": "keys", "are": "slow" }));
    let before = issuer.order(&json!({ "do": "count" }))["count"].as_u64().unwrap();
    // Those who wait for a new key are told so in the end; those whose key is known go on.
    let waiting: Vec<_> =
        (0..10).map(|_| server.send(&bearing(Sent::get("/v1/cells"), &new))).collect();
    for _ in 0..3 {
        look(&server, &known).is(200);
    }
    for mut asked in waiting {
        // Or that there is no such key, if that was heard a moment ago.
        assert!([401, 503].contains(&asked.answer().unwrap().status));
    }
    let after = issuer.order(&json!({ "do": "count" }))["count"].as_u64().unwrap();
    assert!(after - before <= 10, "asked {} times", after - before);
    issuer.order(&json!({ "do": "keys", "are": "plain" }));
    eventually("the new key is known", || look(&server, &new).status == 200);
}

fn what_a_token_says_may_be_written_in_each_way_that_issuers_do(world: &World) {
    let Some(issuer) = Issuer::start(world, &json!({ "a": "p256" })) else { return };
    let server = start(world, &issuer, &[("HOTCELL_AUTH_OIDC_LEEWAY_S", "60")]);
    let scopes = |name: &str, value: Value| {
        let mut claims = with(&issuer, name, value);
        if name != "scope" {
            claims["scope"] = json!(null);
        }
        claims
    };
    for (good, claims) in [
        (200, with(&issuer, "aud", json!([AUDIENCE, "https://other.example.org"]))),
        (401, with(&issuer, "aud", json!(format!("{AUDIENCE} https://other.example.org")))),
        (401, with(&issuer, "aud", json!({ AUDIENCE: true }))),
        (401, with(&issuer, "aud", json!(format!("{AUDIENCE}/")))),
        (200, scopes("scope", json!(["hotcell:read"]))),
        (200, scopes("scp", json!(["hotcell:read", "other"]))),
        (200, scopes("scp", json!("other hotcell:read"))),
        (403, scopes("scope", json!("hotcell:readx read HOTCELL:READ"))),
        (403, scopes("scope", json!({ "hotcell:read": true }))),
        // Clocks may differ by a minute and no more.
        (200, with(&issuer, "exp", json!(now() - 30))),
        (401, with(&issuer, "exp", json!(now() - 90))),
        (200, with(&issuer, "nbf", json!(now() + 30))),
        (401, with(&issuer, "nbf", json!(now() + 90))),
        (401, with(&issuer, "tenant", json!(["main"]))),
        (401, with(&issuer, "tenant", json!("../main"))),
    ] {
        let answer = look(&server, &issuer.sign("a", &claims));
        assert_eq!(answer.status, good, "{claims}: {answer:?}");
    }
    // Nothing that a token says of itself makes its bearer more than the settings do.
    let mut bold = claims(&issuer);
    for (name, value) in [("role", "operator"), ("roles", "operator"), ("reach", "all")] {
        bold[name] = json!(value);
    }
    bold["scope"] = json!("hotcell:read hotcell:admin hotcell:audit");
    let bold = issuer.sign("a", &bold);
    look(&server, &bold).is(200);
    for path in ["/v1/approvals", "/v1/audit"] {
        server.ask(&bearing(Sent::get(path), &bold)).is(403);
    }
}
