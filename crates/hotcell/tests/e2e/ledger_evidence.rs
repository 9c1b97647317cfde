//! The ledger as evidence: verifying changes nothing, a full disk lets nothing be done unseen, and
//! nobody fills it by looking at metrics.

use serde_json::Value;

use crate::world::{HttpServer, Sent, World, program};

in_worlds! { [root]
    verifying_changes_nothing_even_where_nothing_can_be_written,
    what_cannot_be_written_down_is_refused_and_the_gap_is_told,
}

in_worlds! { [root, rootless]
    looking_at_metrics_and_health_is_nobodys_call,
}

/// Verifies on a file system that cannot be written, and prints what the files are before and after.
const READ_ONLY: &str = r#"
set -eu
S="$HOTCELL_STATE_DIR"
"$P" run --cell work 'echo one' >/dev/null
"$P" cells >/dev/null
"$P" kill --force work >/dev/null
n=$(tail -n 1 "$S"/ledger/*.jsonl | grep -o '"n":[0-9]*' | cut -d: -f2)
printf '{"n":%s,"time":"20' "$((n + 1))" >> "$S"/ledger/*.jsonl
sums() { cat "$S"/ledger/* "$S"/ledger.head "$S"/ledger.key | sha256sum; stat -c '%n %y %z %s' "$S"/ledger/* "$S"/ledger.head; }
before=$(sums)
"$P" audit verify | sed 's/^/first /'
test "$before" = "$(sums)" && echo "nothing was changed"
mount --bind "$S" "$S"
mount -o remount,bind,ro "$S"
touch "$S/anything" 2>/dev/null || echo "nothing can be written"
"$P" audit verify | sed 's/^/second /'
umount "$S"
printf 'no entry' >> "$S"/ledger/*.jsonl
sed -i 's/exec_run/exec_get/' "$S"/ledger/*.jsonl
before=$(sums)
"$P" audit verify | sed 's/^/third /'
test "$before" = "$(sums)" && echo "evidence is as it was"
"#;

fn in_own_mounts(world: &World, script: &str) -> String {
    let args = ["--mount", "--propagation", "private", "bash", "-c", script];
    let finished = world.other("unshare", args).env("P", program()).run();
    finished.succeeded().stdout()
}

fn verifying_changes_nothing_even_where_nothing_can_be_written(world: &World) {
    let text = in_own_mounts(world, READ_ONLY);
    let told = |line: &str| assert!(text.lines().any(|it| it.starts_with(line)), "{line}: {text}");
    told("nothing was changed");
    told("nothing can be written");
    told("evidence is as it was");
    for attempt in ["first", "second"] {
        told(&format!("{attempt} intact: "));
        told(&format!("{attempt} note: a process died while it wrote an entry"));
    }
    told("third damaged: ");
    told("third changed: entry ");
}

/// The ledger on a small disk of its own that is filled.
const FULL: &str = r#"
set -eu
S="$HOTCELL_STATE_DIR"
mkdir -p "$S/ledger"
chmod 700 "$S" "$S/ledger"
mount -t tmpfs -o size=128k,mode=700 none "$S/ledger"
say() {
    printf '%s\n' \
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}' \
        '{"jsonrpc":"2.0","method":"notifications/initialized"}' \
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec_run","arguments":{"cell":"work","command":"echo served >> /workspace/served"}}}'
    sleep 3
}
"$P" run --cell work 'echo one' >/dev/null
say | "$P" serve 2>/dev/null | grep '"id":2' | sed 's/^/before /'
dd if=/dev/zero of="$S/ledger/filler" bs=4k 2>/dev/null || true
# What is left is the room that was made before.
for i in $(seq 400); do
    "$P" cells >/dev/null 2>"$S/said"
    grep -q 'is not in the ledger' "$S/said" && break
done
sed 's/^/warned /' "$S/said"
"$P" run --cell work 'echo the operator goes on' 2>/dev/null
say | "$P" serve 2>/dev/null | grep '"id":2' | sed 's/^/full /'
"$P" audit verify | sed 's/^/while /'
rm "$S/ledger/filler"
mount -o remount,size=2m "$S/ledger"
say | "$P" serve 2>/dev/null | grep '"id":2' | sed 's/^/after /'
"$P" run --cell work 'cat served' | sed 's/^/file /'
"$P" audit --json --kind missed | sed 's/^/missed /'
"$P" audit verify | sed 's/^/then /'
"$P" kill --force work >/dev/null
"#;

fn what_cannot_be_written_down_is_refused_and_the_gap_is_told(world: &World) {
    let text = in_own_mounts(world, FULL);
    let told = |name: &str| -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix(name)).collect()
    };
    let answer = |name: &str| -> Value { serde_json::from_str(told(name)[0]).unwrap() };
    // Control: served as long as there is room.
    assert_eq!(answer("before ")["result"]["structuredContent"]["exit_code"], 0, "{text}");
    assert!(text.contains("the operator goes on"), "{text}");
    assert!(told("warned ").iter().any(|line| line.contains("ledger")), "{text}");
    let refused = answer("full ").to_string();
    assert!(refused.contains("nothing is done that cannot be written down"), "{refused}");
    assert_eq!(answer("after ")["result"]["structuredContent"]["exit_code"], 0, "{text}");
    assert_eq!(told("file "), ["served", "served"], "{text}");
    // The processes that could not write are long gone.
    let missed: Value = serde_json::from_str(told("missed ")[0]).unwrap();
    assert!(missed["details"]["count"].as_u64().unwrap() >= 3, "{missed}");
    assert!(told("while ").iter().any(|line| line.starts_with("intact: ")), "{text}");
    assert!(told("then ").iter().any(|line| line.starts_with("intact: ")), "{text}");
    assert!(told("then ").iter().any(|line| line.contains("could not be written")), "{text}");
}

fn looking_at_metrics_and_health_is_nobodys_call(world: &World) {
    world.text(["run", "--cell", "work", "true"]);
    let server = HttpServer::start(world);
    let last = || world.json(["audit", "verify", "--json"])["last"].as_u64().unwrap();
    // What happened before the server came is taken over once.
    server.ask(&Sent::get("/metrics")).is(200);
    let before = last();
    for path in ["/metrics", "/health", "/ready", "/metrics"] {
        server.ask(&Sent::get(path)).is(200);
    }
    assert_eq!(last(), before);
    // Control: a call is one.
    server.ask(&Sent::get("/v1/cells")).is(200);
    assert_eq!(last(), before + 1);
    server.terminate().succeeded();
}
