//! A disk that fills up while a command prints: the command goes on and the gap is stated.

use serde_json::Value;

use crate::world::{World, program};

in_worlds! { [root]
    a_full_disk_costs_output_and_nothing_else,
    a_run_on_a_full_disk_is_refused_and_leaves_nothing,
    a_disk_that_is_nearly_full_takes_no_new_cell,
}

/// The state directory on a small disk in a mount namespace of its own; what happens there is
/// printed, section by section.
const SCRIPT: &str = r#"
set -eu
mkdir -p "$HOTCELL_STATE_DIR"
mount -t tmpfs -o size=256m none "$HOTCELL_STATE_DIR"
dir=$(mktemp -d)
mkfifo "$dir/in"
exec 8<>"$dir/in"
"$P" spawn full >/dev/null
"$P" run -i --cell full '
    echo before; read a
    head -c 3000000 /dev/zero | tr "\0" a; echo; echo printed; cat /dev/null > /tmp/printed
    read b; echo after; exit 7' <"$dir/in" >"$dir/out" 2>"$dir/err" &
client=$!
until grep -q before "$dir/out"; do sleep 0.02; done
dd if=/dev/zero of="$HOTCELL_STATE_DIR/filler" bs=64k 2>/dev/null || true
dd if=/dev/zero of="$HOTCELL_STATE_DIR/filler2" bs=4k 2>/dev/null || true
echo go >&8
# The command is seen to have printed all of it from outside: nothing can be asked on a full disk.
supervisor=$(sed 's/.*"pid":\([0-9]*\).*/\1/' "$HOTCELL_STATE_DIR"/native/cells/*/supervisor.json)
until test -e "/proc/$supervisor/root/tmp/printed"; do sleep 0.02; done
"$P" run --cell full 'echo on a full disk' >"$dir/refused" 2>&1 && code_full=0 || code_full=$?
rm "$HOTCELL_STATE_DIR/filler" "$HOTCELL_STATE_DIR/filler2"
echo go >&8
wait $client && code=0 || code=$?
echo "code $code"
exec_id=$("$P" ps --all --json | grep -o '"id":"e_[a-z0-9]*"' | tail -1 | cut -d'"' -f4)
"$P" wait --json "$exec_id" | sed 's/^/ended /' || true
"$P" logs --json "$exec_id" >"$dir/log"
grep -h dropped "$dir/log" | sed 's/^/dropped /' || true
grep -c '"data"' "$dir/log" | sed 's/^/records /'
grep -q 'after' "$dir/log" && echo "log has after"
grep -q 'after' "$dir/out" && echo "client has after"
grep -q 'not kept' "$dir/err" && echo "client states the gap"
cat "$dir/refused"
echo "full disk $code_full"
"$P" run --cell full 'echo works again'
"$P" kill --force full >/dev/null
"$P" cells --all --json | sed 's/^/cells /'
"#;

fn a_full_disk_costs_output_and_nothing_else(world: &World) {
    let finished = world
        .other("unshare", ["--mount", "--propagation", "private", "bash", "-c", SCRIPT])
        .env("P", program())
        .run();
    let text = finished.clone().succeeded().stdout();
    let told = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_else(|| panic!("{name} is missing: {finished:?}")).to_owned()
    };
    assert_eq!(told("code "), "7");
    let ended: Value = serde_json::from_str(&told("ended ")).unwrap();
    assert_eq!((&ended["end"]["cause"], &ended["end"]["exit_code"]), (&"exited".into(), &7.into()));
    assert_eq!(ended["end"]["usage"]["stdout_bytes"], 7 + 3_000_001 + 8 + 6);
    let dropped: Value = serde_json::from_str(&told("dropped ")).unwrap();
    assert!(dropped["dropped"]["dropped_bytes"].as_u64().unwrap() > 2_000_000, "{dropped}");
    for line in ["log has after", "client has after", "client states the gap", "works again"] {
        assert!(text.lines().any(|found| found == line), "{line}: {finished:?}");
    }
    assert_eq!(told("full disk "), "125");
    assert!(text.contains(" is full\nhint: free some space"), "{finished:?}");
    assert_eq!(told("cells "), r#"{"cells":[]}"#);
}

/// A disk that is full at first and has a little more room for each try.
const LITTLE_BY_LITTLE: &str = r#"
set -u
mkdir -p "$HOTCELL_STATE_DIR"
mount -t tmpfs -o size=256m none "$HOTCELL_STATE_DIR"
chmod 700 "$HOTCELL_STATE_DIR"
cd "$HOTCELL_STATE_DIR"
err=$(mktemp)
"$P" run 'echo first'
dd if=/dev/zero of=filler bs=64k 2>/dev/null
dd if=/dev/zero of=filler2 bs=4k 2>/dev/null
for kib in 0 4 8 12 16 20 24 32 40 48 64 96 128 256; do
    truncate -s "-${kib}k" filler
    # The time is a bound against hanging alone.
    timeout 60 "$P" run 'echo second' 2>"$err" </dev/null
    echo "code $?"
    grep -e '^error: ' -e '^hint: ' "$err"
done
rm filler filler2
"$P" run 'echo again'
until test "$("$P" cells --all --json)" = '{"cells":[]}' -a -z "$(ls -A native/cells native/ids | grep -v :)"; do
    sleep 0.05
done
echo "nothing is left"
"#;

fn a_run_on_a_full_disk_is_refused_and_leaves_nothing(world: &World) {
    let finished = world
        .other("unshare", ["--mount", "--propagation", "private", "bash", "-c", LITTLE_BY_LITTLE])
        .env("P", program())
        // The end of a cell that could not be written down either is found after this time.
        .env("HOTCELL_ORPHAN_GRACE_S", "1")
        .env("HOTCELL_DISK_RESERVE_MB", "0")
        .run();
    let text = finished.clone().succeeded().stdout();
    let codes: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("code ")).collect();
    assert_eq!((codes.first(), codes.last()), (Some(&"125"), Some(&"0")), "{finished:?}");
    assert!(codes.iter().all(|code| ["0", "125"].contains(code)), "{finished:?}");
    let state_dir = world.state_dir();
    let refused = text.lines().filter(|line| line.starts_with("error: ")).collect::<Vec<_>>();
    let hints = text.lines().filter(|line| line.starts_with("hint: free some space")).count();
    assert_eq!(codes.iter().filter(|code| **code == "125").count(), hints, "{finished:?}");
    let named = |line: &&str| line.contains(state_dir.to_str().unwrap());
    assert!(refused.iter().all(named), "{finished:?}");
    assert!(text.ends_with("\nagain\nnothing is left\n"), "{finished:?}");
}

/// Of 256 MiB a twentieth is to stay free, and half of that does.
const NEARLY_FULL: &str = r#"
set -eu
mkdir -p "$HOTCELL_STATE_DIR"
mount -t tmpfs -o size=256m none "$HOTCELL_STATE_DIR"
"$P" run --cell before 'echo kept > file'
free() { df --output=avail -k "$HOTCELL_STATE_DIR" | tail -n 1; }
dd if=/dev/zero of="$HOTCELL_STATE_DIR/filler" bs=1k count=$(($(free) - 4096)) 2>/dev/null
"$P" spawn more 2>&1 && code=0 || code=$?
echo "code $code"
"$P" run --cell before 'cat file'
truncate -s -20M "$HOTCELL_STATE_DIR/filler"
"$P" spawn more >/dev/null
"$P" kill --volumes --force more before >/dev/null
echo done
"#;

fn a_disk_that_is_nearly_full_takes_no_new_cell(world: &World) {
    let finished = world
        .other("unshare", ["--mount", "--propagation", "private", "bash", "-c", NEARLY_FULL])
        .env("P", program())
        .run();
    let text = finished.clone().succeeded().stdout();
    assert!(text.contains("MiB are free on the disk of the state directory"), "{finished:?}");
    assert!(text.contains("disk_reserve_mb"), "{finished:?}");
    assert!(text.ends_with("code 6\nkept\ndone\n"), "{finished:?}");
}
