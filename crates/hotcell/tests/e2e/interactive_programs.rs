//! Programs that ask, answer line by line or take the whole screen, driven through `hotcell serve`.

use serde_json::{Value, json};

use crate::world::{Era, McpClient, World};

in_worlds! { [root, rootless, single_id]
    a_repl_answers_in_one_call,
    a_question_is_reported_at_once,
    what_does_not_read_is_not_reported_as_waiting,
    a_full_screen_program_is_driven_by_keys_and_read_by_its_screen,
}

in_worlds! { [root, rootless]
    a_call_waits_for_a_pattern_or_the_end,
    a_pattern_is_found_among_colours,
    an_interrupt_is_for_the_foreground_program,
    a_screen_has_the_size_that_the_terminal_has,
    a_screen_shows_no_secret,
}

/// Far longer than any of these programs takes, so that a call which waits too long does not pass.
const LONG: f64 = 50.0;
/// A value that has the form of a secret. In two parts: this file holds none.
const SECRET: [&str; 2] = ["ghp_", "aZ09bY18cX27dW36eV45fU54gT63hS72iR81"];

fn client(world: &World) -> McpClient {
    let mut client = McpClient::start(world, Era::Modern);
    client.call("cell_spawn", json!({ "alias": "c" }));
    client
}

fn in_terminal(client: &mut McpClient, argv: &[&str]) -> Value {
    client.call("exec_run", json!({ "cell": "c", "argv": argv, "pty": true, "wait_s": LONG }))
}

fn printed(page: &Value) -> String {
    let messages = page["messages"].as_array().unwrap().iter();
    messages.map(|message| message["data"].as_str().unwrap()).collect()
}

fn send(client: &mut McpClient, run: &Value, with: Value) -> Value {
    let mut arguments = with;
    arguments["exec_id"] = run["exec_id"].clone();
    client.call("exec_input", arguments)
}

fn poll(client: &mut McpClient, run: &Value, with: Value) -> Value {
    let mut arguments = with;
    arguments["exec_id"] = run["exec_id"].clone();
    client.call("exec_poll", arguments)
}

fn a_repl_answers_in_one_call(world: &World) {
    let mut client = client(world);
    // Newer ones redraw the whole line with every key.
    let repl = in_terminal(&mut client, &["env", "PYTHON_BASIC_REPL=1", "python3", "-q"]);
    assert_eq!((&repl["status"], &repl["waiting_for_input"]), (&json!("running"), &json!(">>> ")));
    assert!(repl["stdout"].as_str().unwrap().contains(">>> "), "{repl}");
    for number in 1..=5 {
        let text = format!("6 * {number}\n");
        let answer = send(&mut client, &repl, json!({ "text": text }));
        let printed = printed(&answer);
        assert!(printed.contains(&format!("{}\r\n", 6 * number)), "{printed:?}");
        assert_eq!(answer["waiting_for_input"], ">>> ");
    }
    // One that computes for longer than it takes to be quiet is not taken to be done.
    let text = "print(sum(1 for n in range(10 ** 7)))\n";
    let answer = send(&mut client, &repl, json!({ "text": text, "wait_s": LONG }));
    assert!(printed(&answer).contains("10000000\r\n"), "{answer}");
    assert_eq!(answer["waiting_for_input"], ">>> ");
    // The control: the first output is only a part of that.
    let text = "import time; time.sleep(0.5); print('slept')\n";
    let first = send(&mut client, &repl, json!({ "text": text, "until": "output" }));
    assert!(!printed(&first).contains("slept\r\n"), "{first}");
    let after = json!({ "after_seq": first["next_seq"], "until": "waiting", "wait_s": LONG });
    let rest = poll(&mut client, &repl, after);
    assert!(printed(&rest).contains("slept\r\n"), "{rest}");
    assert_eq!(rest["waiting_for_input"], ">>> ");
    let end = send(&mut client, &repl, json!({ "keys": ["ctrl-d"], "until": "end" }));
    assert_eq!((&end["status"], &end["exit_code"]), (&json!("ended"), &json!(0)));
}

fn a_question_is_reported_at_once(world: &World) {
    let mut client = client(world);
    let script = "printf 'checking\\n'; read -r -p 'Continue? [y/n] ' answer; echo \"<$answer>\"";
    let asked = in_terminal(&mut client, &["bash", "-c", script]);
    assert_eq!(asked["waiting_for_input"], "Continue? [y/n] ");
    assert_eq!(asked["stdout"], "checking\r\nContinue? [y/n] ");
    let answered = send(&mut client, &asked, json!({ "text": "y\n", "until": "end" }));
    assert!(printed(&answered).ends_with("<y>\r\n"), "{answered}");
    assert_eq!(answered.get("waiting_for_input"), None);

    let script = "printf 'Name: '; read -r name; echo \"<$name>\"; read -r more";
    let run = json!({ "cell": "c", "command": script, "stdin_open": true, "wait_s": LONG });
    let id = client.ask_tool("exec_run", run);
    let result = client.answer(id)["result"].clone();
    let asked = result["structuredContent"].clone();
    assert_eq!(asked["waiting_for_input"], "Name: ");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("waiting for input: \"Name: \"; answer with exec_input"), "{text}");
    let answered = send(&mut client, &asked, json!({ "text": "me\n", "until": "waiting" }));
    assert_eq!(printed(&answered), "<me>\n");
    assert_eq!(answered["waiting_for_input"], "Name: <me>");

    // A question may be a whole line.
    let script = "echo 'Proceed? (y/n)'; read -r answer";
    for pty in [true, false] {
        let run = json!({
            "cell": "c", "command": script, "pty": pty, "stdin_open": true, "wait_s": LONG,
        });
        let asked = client.call("exec_run", run);
        assert_eq!(asked["waiting_for_input"], "Proceed? (y/n)", "pty {pty}");
        send(&mut client, &asked, json!({ "text": "y\n", "until": "end" }));
    }
}

fn what_does_not_read_is_not_reported_as_waiting(world: &World) {
    let mut client = client(world);
    let socket = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n\
                  print('> ', end='', flush=True); s.accept()";
    for argv in [
        &["bash", "-c", "printf '> '; exec sleep 1000"][..],
        &["bash", "-c", "printf '> '; while :; do :; done"],
        &["bash", "-c", "printf '> '; sleep 1000; read -r line"],
        &["python3", "-c", socket],
    ] {
        for pty in [true, false] {
            let run =
                json!({ "cell": "c", "argv": argv, "pty": pty, "stdin_open": true, "wait_s": 1 });
            let run = client.call("exec_run", run);
            assert_eq!(run["status"], "running", "{argv:?}");
            assert_eq!(run.get("waiting_for_input"), None, "{argv:?}");
            let page = poll(&mut client, &run, json!({ "until": "waiting", "wait_s": 1 }));
            assert_eq!(printed(&page), "> ", "{argv:?}");
            assert_eq!(page.get("waiting_for_input"), None, "{argv:?}");
            client.call("exec_cancel", json!({ "exec_id": run["exec_id"], "grace_s": 0 }));
        }
    }
    // Beside its work, one may look at its input from time to time, or all the time.
    let script =
        "import select, sys; print('serving', flush=True); select.select([sys.stdin], [], [])";
    let argv = ["python3", "-c", script];
    let run = json!({ "cell": "c", "argv": argv, "stdin_open": true, "wait_s": 2 });
    let run = client.call("exec_run", run);
    assert_eq!(run.get("waiting_for_input"), None, "{run}");
    client.call("exec_cancel", json!({ "exec_id": run["exec_id"], "grace_s": 0 }));
    // The control: the same with a program that reads.
    for pty in [true, false] {
        let argv = ["bash", "-c", "printf '> '; exec cat"];
        let run =
            json!({ "cell": "c", "argv": argv, "pty": pty, "stdin_open": true, "wait_s": LONG });
        assert_eq!(client.call("exec_run", run)["waiting_for_input"], "> ", "pty {pty}");
    }
}

/// A menu that takes the whole screen and says which of its items was chosen.
const MENU: &str = "
import curses
def menu(screen):
    curses.curs_set(0)
    items, at = ['apples', 'pears', 'plums'], 0
    while True:
        screen.erase()
        for place, item in enumerate(items):
            screen.addstr(place + 1, 2, ('* ' if place == at else '  ') + item)
        screen.refresh()
        key = screen.getch()
        if key == curses.KEY_DOWN: at = (at + 1) % 3
        elif key == curses.KEY_UP: at = (at - 1) % 3
        elif key == 10: return items[at]
print('chose ' + curses.wrapper(menu))
";

fn a_full_screen_program_is_driven_by_keys_and_read_by_its_screen(world: &World) {
    let mut client = client(world);
    let menu = in_terminal(&mut client, &["python3", "-c", MENU]);
    let seen = poll(&mut client, &menu, json!({ "screen": true, "until": "waiting" }));
    let screen = &seen["screen"];
    assert_eq!(screen["rows"], json!(["", "  * apples", "    pears", "    plums"]));
    assert_eq!((&screen["alternate_screen"], &screen["size"]), (&json!(true), &json!([24, 80])));
    assert_eq!(seen["messages"], json!([]));
    let seen = send(&mut client, &menu, json!({ "keys": ["down", "down"], "screen": true }));
    assert_eq!(seen["screen"]["rows"], json!(["", "    apples", "    pears", "  * plums"]));
    let seen = send(&mut client, &menu, json!({ "keys": ["up"], "screen": true }));
    assert_eq!(seen["screen"]["rows"], json!(["", "    apples", "  * pears", "    plums"]));
    let end = send(&mut client, &menu, json!({ "keys": ["enter"], "until": "end" }));
    assert!(printed(&end).contains("chose pears"), "{end}");
    // Anybody can see what was on it last, also after its end.
    let exec = menu["exec_id"].as_str().unwrap();
    let shown = world.text(["logs", "--screen", exec]);
    assert_eq!(shown.trim(), "chose pears");

    let id = client.ask_tool("exec_input", json!({ "exec_id": exec, "keys": ["hyper-q"] }));
    let refused = client.answer(id)["result"].to_string();
    assert!(refused.contains("hyper-q") && refused.contains("ctrl-"), "{refused}");
    let plain = client.call("exec_run", json!({ "cell": "c", "command": "echo plain" }));
    let arguments = json!({ "exec_id": plain["exec_id"], "screen": true });
    let id = client.ask_tool("exec_poll", arguments);
    assert!(client.answer(id)["result"].to_string().contains("no terminal"));
}

fn a_call_waits_for_a_pattern_or_the_end(world: &World) {
    let mut client = client(world);
    let script = "echo one; read -r a; echo 'port 80'; read -r b; echo 'port 8080'; read -r c";
    let run = json!({ "cell": "c", "command": script, "stdin_open": true, "wait_s": 0 });
    let run = client.call("exec_run", run);
    let found = send(&mut client, &run, json!({ "text": "x\n", "pattern": "port \\d\\d\\n" }));
    assert!(printed(&found).ends_with("port 80\n"), "{found}");
    // The control: what is not printed is not waited for beyond its time.
    let arguments = json!({ "until": "match", "pattern": "port 9", "wait_s": 0.5 });
    let absent = poll(&mut client, &run, arguments);
    assert!(!printed(&absent).contains("port 9") && absent["status"] == "running", "{absent}");
    assert_eq!(absent["note"], "the pattern was not printed");
    assert_eq!(found.get("note"), None);
    send(&mut client, &run, json!({ "text": "x\n", "until": "match", "pattern": "8080" }));
    let end = send(&mut client, &run, json!({ "text": "x\n", "until": "end", "wait_s": LONG }));
    assert_eq!((&end["status"], &end["complete"]), (&json!("ended"), &json!(true)));
    let id = client.ask_tool("exec_poll", json!({ "exec_id": run["exec_id"], "until": "match" }));
    assert!(client.answer(id)["result"].to_string().contains("needs a pattern"));
}

fn a_pattern_is_found_among_colours(world: &World) {
    let mut client = client(world);
    let script = r"sleep 0.3; printf '\033[1mser\033[32mver\033[0m ready\n'; read -r end";
    let run = json!({ "cell": "c", "argv": ["bash", "-c", script], "pty": true, "wait_s": 0 });
    let run = client.call("exec_run", run);
    let arguments = json!({ "pattern": "^server ready$", "wait_s": LONG });
    let found = poll(&mut client, &run, arguments);
    assert!(printed(&found).contains("ready") && found["status"] == "running", "{found}");
    assert_eq!(found.get("note"), None);
    // Whoever must not see a secret cannot find out what it is by matching parts of it.
    let [kind, rest] = SECRET;
    let script = format!("printf 'a {kind}'; printf '\\033[0m'; printf '{rest} b'; read -r a");
    let run = in_terminal(&mut client, &["bash", "-c", &script]);
    let begin = format!("{kind}{}", &rest[..4]);
    let probe = json!({ "pattern": begin, "wait_s": 0.5 });
    assert_eq!(poll(&mut client, &run, probe)["note"], "the pattern was not printed");
    // The control: what stands around it is found.
    let around = poll(&mut client, &run, json!({ "pattern": "^a .* b$", "wait_s": LONG }));
    assert_eq!(around.get("note"), None, "{around}");
}

fn an_interrupt_is_for_the_foreground_program(world: &World) {
    let mut client = client(world);
    let shell = in_terminal(&mut client, &["bash", "--norc", "-i"]);
    let text = "sh -c 'echo go; exec sleep 1000'\n";
    let started = send(&mut client, &shell, json!({ "text": text, "pattern": "^go$" }));
    assert_eq!(started.get("note"), None, "{started}");
    send(&mut client, &shell, json!({ "signal": "INT", "until": "waiting", "wait_s": LONG }));
    let answer = send(&mut client, &shell, json!({ "text": "echo code $?\n" }));
    assert!(printed(&answer).contains("code 130"), "{answer}");
}

fn a_screen_has_the_size_that_the_terminal_has(world: &World) {
    let mut client = client(world);
    let script = "printf '%030d' 7; read -r a; printf '\\033[2J\\033[H%030d' 8; read -r b";
    let argv = ["bash", "-c", script];
    let run = json!({ "cell": "c", "argv": argv, "rows": 5, "cols": 20, "wait_s": LONG });
    let run = client.call("exec_run", run);
    let seen = poll(&mut client, &run, json!({ "screen": true }));
    assert_eq!(seen["screen"]["size"], json!([5, 20]));
    assert_eq!(seen["screen"]["rows"], json!(["0".repeat(20), format!("{:010}", 7)]));
    let wider = json!({ "rows": 6, "cols": 40, "text": "\n", "screen": true, "until": "waiting" });
    let seen = send(&mut client, &run, wider);
    assert_eq!(seen["screen"]["size"], json!([6, 40]));
    assert_eq!(seen["screen"]["rows"], json!([format!("{:030}", 8)]));
}

fn a_screen_shows_no_secret(world: &World) {
    let mut client = client(world);
    let [kind, rest] = SECRET;
    // Put together on the screen from parts, so that no part is a secret.
    let script = format!("printf 'a {kind}'; printf '\\033[0m'; printf '{rest} b'; read -r a");
    let run = in_terminal(&mut client, &["bash", "-c", &script]);
    let seen = poll(&mut client, &run, json!({ "screen": true, "until": "waiting" }));
    let row = seen["screen"]["rows"][0].as_str().unwrap();
    assert!(row.starts_with("a ") && row.ends_with(" b") && !row.contains(rest), "{row}");
    assert!(!seen.to_string().contains(rest), "{seen}");
    // The control: the operator sees it.
    let exec = run["exec_id"].as_str().unwrap();
    let raw = world.text(["logs", "--screen", exec]);
    assert!(raw.contains(rest), "{raw}");
}
