//! Output: every byte of it, however much, with bounded memory, and what is not kept is stated.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::world::{World, eventually, is_root, peak_kib, program};

in_worlds! { [root]
    a_line_of_a_gigabyte_is_served_in_bounded_memory,
}

in_every_world! {
    raw_bytes_come_through_unchanged,
    text_split_between_records_is_whole_in_json,
}

in_worlds! { [root, single_id]
    a_flood_is_bounded_in_memory_and_on_disk,
}

in_worlds! { [root, rootless]
    a_foreground_flood_arrives_whole_with_bounded_memory,
    whoever_stops_reading_ends_the_command,
}

in_worlds! { [root]
    a_slow_reader_does_not_slow_the_others,
}

/// Bytes that no text has, the same every time.
const NOISE: &str = "perl -e '$s = 1; for (1..$ARGV[0]) { \
                     $s = ($s * 1103515245 + 12345) & 0x7fffffff; \
                     print chr(($s >> 16) & 255) }' ";

fn noise(length: usize) -> Vec<u8> {
    let mut state: u64 = 1;
    let next = |state: &mut u64| {
        *state = (*state * 1_103_515_245 + 12345) & 0x7fff_ffff;
        u8::try_from((*state >> 16) & 255).unwrap()
    };
    (0..length).map(|_| next(&mut state)).collect()
}

fn dropped_in(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| line.get("dropped").cloned()).collect()
}

fn raw_bytes_come_through_unchanged(world: &World) {
    let script = format!("{NOISE} 300000; echo >&2 apart");
    let finished = world.hotcell(["run", "--cell", "raw", &script]).run().succeeded();
    assert!(finished.stdout == noise(300_000), "{} bytes came", finished.stdout.len());
    let exec = world.json(["ps", "--all", "--json"])["execs"][0]["id"].as_str().unwrap().to_owned();
    let read = world.hotcell(["logs", &exec]).run().succeeded();
    assert!(read.stdout == noise(300_000), "{} bytes were kept", read.stdout.len());
    let echoed = world.hotcell(["run", "-i", "cat"]).input(noise(200_000)).run().succeeded();
    assert!(echoed.stdout == noise(200_000), "{} bytes came back", echoed.stdout.len());
}

fn text_split_between_records_is_whole_in_json(world: &World) {
    let script = "printf 'gr\\303'; sleep 0.1; printf '\\274\\303\\237e \\360\\237'; sleep 0.1; \
                  printf '\\246\\200 \\377!\\n'";
    let exec = world.detach("utf8", script);
    world.ended(&exec);
    let text = world.text(["logs", "--json", &exec]);
    let data: String = text
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["data"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(data, "grüße 🦀 \u{fffd}!\n");
}

fn a_flood_is_bounded_in_memory_and_on_disk(world: &World) {
    let flood = "head -c 200000000 /dev/zero | tr '\\0' 'x'; echo; echo end";
    let spawn = world.hotcell(["spawn", "flood"]).env("HOTCELL_OUTPUT_MB", "8");
    spawn.run().succeeded();
    let exec = world.detach("flood", flood);
    let ended = world.ended(&exec);
    assert_eq!(ended["end"]["usage"]["stdout_bytes"], 200_000_005);
    if is_root() {
        let peak = peak_kib(world.supervisor("flood"));
        assert!(peak < 32 * 1024, "the supervisor used {peak} KiB");
    }

    let read = world.hotcell(["logs", &exec]).run().succeeded();
    assert!(read.stdout.len() < 9 << 20, "{} bytes were kept", read.stdout.len());
    assert!(read.stdout.ends_with(b"x\nend\n"), "the tail is kept");
    assert!(read.stdout.starts_with(b"xxxx"), "the head is kept");
    assert!(read.stderr().contains("were not kept"), "{}", read.stderr());
    let dropped = dropped_in(&world.text(["logs", "--json", &exec]));
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    let missing = dropped[0]["dropped_bytes"].as_u64().unwrap();
    assert_eq!(missing + read.stdout.len() as u64, 200_000_005);
    assert_eq!(world.text(["logs", "--tail", "1", &exec]), "end\n");
    let size = directory_bytes(&world.state_dir().join("cells"));
    assert!(size < 12 << 20, "{size} bytes lie on disk");
}

fn a_foreground_flood_arrives_whole_with_bounded_memory(world: &World) {
    let live = world.hotcell(["run", "head -c 100000000 /dev/zero"]);
    // The least that can be kept: what is passed on does not depend on it.
    let mut live = live.env("HOTCELL_OUTPUT_MB", "1").start_unread();
    let pid = live.pid();
    let mut stdout = live.take_stdout();
    let mut buffer = vec![0; 1 << 16];
    let (mut total, mut first, mut peak) = (0, None, 0);
    while let Ok(count @ 1..) = stdout.read(&mut buffer) {
        assert!(buffer[..count].iter().all(|byte| *byte == 0));
        total += count;
        peak = peak.max(peak_kib(pid));
        first.get_or_insert(peak);
    }
    live.finish().succeeded();
    assert_eq!(total, 100_000_000);
    // How much of the program itself is in memory is another matter.
    let grown = peak - first.unwrap();
    assert!(grown <= 16 * 1024, "the client grew by {grown} KiB");
}

fn a_line_of_a_gigabyte_is_served_in_bounded_memory(world: &World) {
    const BYTES: u64 = 1_000_000_000;
    let line = "head -c 1000000000 /dev/zero | tr '\\0' x";
    world.hotcell(["spawn", "line"]).env("HOTCELL_OUTPUT_MB", "8").run().succeeded();
    world.text(["run", "--cell", "line", "true"]);
    let supervisor = world.supervisor("line");
    let before = peak_kib(supervisor);
    let mut live = world.hotcell(["run", "--cell", "line", line]).start_unread();
    let pid = live.pid();
    let mut stdout = live.take_stdout();
    let mut buffer = vec![0; 1 << 20];
    let (mut total, mut first, mut last) = (0, None, 0);
    while let Ok(count @ 1..) = stdout.read(&mut buffer) {
        assert!(buffer[..count].iter().all(|byte| *byte == b'x'));
        total += count as u64;
        last = peak_kib(pid).max(last);
        first.get_or_insert(last);
    }
    live.finish().succeeded();
    assert_eq!(total, BYTES, "who reads along gets all of it");
    let grown = last - first.unwrap();
    assert!(grown <= 32 * 1024, "the client grew by {grown} KiB");
    let grown = peak_kib(supervisor) - before;
    assert!(grown <= 32 * 1024, "the supervisor grew by {grown} KiB");

    let listed = world.json(["ps", "--all", "--json"]);
    let exec = listed["execs"][0]["id"].as_str().unwrap();
    let read = world.hotcell(["logs", exec]).run().succeeded();
    let kept = read.stdout.len() as u64;
    assert!((6 << 20..9 << 20).contains(&kept), "{kept} bytes were kept");
    let pages = world.text(["logs", "--json", exec]);
    let dropped = dropped_in(&pages);
    assert_eq!(dropped.len(), 1, "{dropped:?}");
    assert_eq!(dropped[0]["dropped_bytes"].as_u64().unwrap() + kept, BYTES);
    let is_gap = |line: &str| line.contains("\"dropped\"");
    let gap_at = pages.lines().position(is_gap).unwrap();
    assert!(gap_at > 0 && gap_at + 1 < pages.lines().count(), "head and tail are kept");
}

fn whoever_stops_reading_ends_the_command(world: &World) {
    let program = program().display();
    let script = format!("{program} run --cell gone 'yes' | head -1; echo ${{PIPESTATUS[0]}}");
    let finished = world.other("bash", ["-c", &script]).run().succeeded();
    assert_eq!(finished.stdout(), "y\n141\n", "{finished:?}");
    eventually("the command is ended", || {
        world.json(["ps", "--json"])["execs"].as_array().unwrap().is_empty()
    });
}

fn a_slow_reader_does_not_slow_the_others(world: &World) {
    let exec = world.detach("flow", "head -c 30000000 /dev/zero; echo done");
    let stuck = world.hotcell(["logs", "-f", &exec]).start_unread();
    world.ended(&exec);
    assert_eq!(world.text(["run", "--cell", "flow", "echo fine"]), "fine\n");
    drop(stuck);
}

fn directory_bytes(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => directory_bytes(&entry.path()),
            Ok(_) => entry.metadata().map_or(0, |metadata| metadata.len()),
            Err(_) => 0,
        })
        .sum()
}
