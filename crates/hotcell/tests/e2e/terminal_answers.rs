//! What a program prints after input, told apart from the echo of the input, and how its screen and its
//! prompt are reported.

use serde_json::{Value, json};

use crate::world::{Era, McpClient, World};

in_worlds! { [root, rootless, single_id]
    a_pattern_is_not_found_in_the_echo,
    what_polls_its_input_and_waits_for_something_else_is_not_asking,
}

in_worlds! { [root, rootless]
    output_before_the_input_was_read_does_not_count,
    a_prompt_is_reported_after_every_kind_of_wait,
    the_selected_item_of_a_menu_is_highlighted,
    mode_switches_are_shown_to_operators_alone,
    a_large_screen_says_that_it_is_cut,
}

/// Far longer than any of these programs takes, so that a call which waits too long does not pass.
const LONG: f64 = 50.0;

fn client(world: &World) -> McpClient {
    let mut client = McpClient::start(world, Era::Modern);
    client.call("cell_spawn", json!({ "alias": "c" }));
    client
}

/// A program in a terminal of 40 columns, which wraps most of what is typed.
fn in_terminal(client: &mut McpClient, argv: &[&str]) -> Value {
    client.call("exec_run", json!({ "cell": "c", "argv": argv, "cols": 40, "wait_s": LONG }))
}

fn call(client: &mut McpClient, tool: &str, run: &Value, with: Value) -> Value {
    let mut arguments = with;
    arguments["exec_id"] = run["exec_id"].clone();
    client.call(tool, arguments)
}

fn text_of(client: &mut McpClient, tool: &str, run: &Value, with: Value) -> String {
    let mut arguments = with;
    arguments["exec_id"] = run["exec_id"].clone();
    let id = client.ask_tool(tool, arguments);
    client.answer(id)["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

fn printed(page: &Value) -> String {
    let messages = page["messages"].as_array().unwrap().iter();
    messages.map(|message| message["data"].as_str().unwrap()).collect()
}

fn a_pattern_is_not_found_in_the_echo(world: &World) {
    let mut client = client(world);
    let python = ["env", "PYTHON_BASIC_REPL=1", "python3", "-q"];
    let bash = ["bash", "--norc", "-i"];
    let wrapped = "import time; time.sleep(1); print('it has', 'now', 'finished')";
    let block = "for n in [1]:\n    import time\n    time.sleep(1)\n    print('finished')\n";
    for (argv, text, pattern, line) in [
        (&python[..], wrapped, "finished", "it has now finished\r\n"),
        (&python, block, "finished", "\nfinished\r\n"),
        (&bash, "sleep 1; echo READY", "READY", "\rREADY\r\n"),
        (&bash, "true 1234567890 1234567890; sleep 1; echo READY", "READY", "\rREADY\r\n"),
        (&bash, "sleep 1; echo one\nsleep 1; echo READY", "READY", "\rREADY\r\n"),
        // No line editor: the kernel echoes.
        (&["sh"], "sleep 1; echo READY", "READY", "\nREADY\r\n"),
    ] {
        let repl = in_terminal(&mut client, argv);
        let text = format!("{text}\n");
        let arguments =
            json!({ "text": text, "until": "match", "pattern": pattern, "wait_s": LONG });
        let found = call(&mut client, "exec_input", &repl, arguments);
        let shown = printed(&found);
        let (_, answer) = shown.split_once(line).unwrap_or_else(|| panic!("{text:?}: {shown:?}"));
        assert!(!answer.contains(pattern), "{shown:?}");
        assert_eq!(found.get("note"), None, "{found}");
        client.call("exec_cancel", json!({ "exec_id": repl["exec_id"], "grace_s": 0 }));
    }
    // The control: what is not echoed hides nothing.
    let script = "printf 'Password: '; read -rs word; echo; echo \"ok $word\"; read -r end";
    let asked = in_terminal(&mut client, &["bash", "-c", script]);
    let arguments = json!({ "text": "ok\n", "pattern": "^ok ok$", "wait_s": LONG });
    let found = call(&mut client, "exec_input", &asked, arguments);
    assert_eq!(found.get("note"), None, "{found}");
}

fn output_before_the_input_was_read_does_not_count(world: &World) {
    let mut client = client(world);
    let shell = in_terminal(&mut client, &["bash", "--norc", "-i"]);
    let arguments = json!({ "text": "sleep 2; echo READY first\n", "until": "output" });
    call(&mut client, "exec_input", &shell, arguments);
    let arguments =
        json!({ "text": "sleep 1; echo READY again\n", "pattern": "^READY", "wait_s": LONG });
    let found = call(&mut client, "exec_input", &shell, arguments);
    let shown = printed(&found);
    // The control: the result has all output.
    assert!(shown.contains("\nREADY first\r\n"), "{shown:?}");
    assert!(shown.contains("\rREADY again\r\n"), "{shown:?}");
}

/// Answers a line after something else has happened, and watches its input meanwhile, as node does.
const WATCHER: &str = "
import os, select, subprocess, sys
watch = select.epoll()
watch.register(0, select.EPOLLIN)
print('> ', end='', flush=True)
while True:
    watch.poll()
    if not os.read(0, 100).strip(): break
    if sys.argv[1] == 'timer':
        watch.poll(2)
    else:
        child = subprocess.Popen(['sleep', '2'], stdout=subprocess.PIPE)
        watch.register(child.stdout, select.EPOLLIN | select.EPOLLHUP)
        watch.poll()
        watch.unregister(child.stdout)
    print('answer', end='\\n> ', flush=True)
";

fn what_polls_its_input_and_waits_for_something_else_is_not_asking(world: &World) {
    let mut client = client(world);
    for waits_for in ["timer", "child"] {
        let program = in_terminal(&mut client, &["python3", "-c", WATCHER, waits_for]);
        assert_eq!(program["waiting_for_input"], "> ");
        let arguments = json!({ "text": "go\n", "until": "waiting", "wait_s": LONG });
        let answer = call(&mut client, "exec_input", &program, arguments);
        assert!(printed(&answer).ends_with("answer\r\n> "), "{answer}");
        assert_eq!(answer["waiting_for_input"], "> ");
        // When it is quiet, it is not reported as waiting either.
        let arguments = json!({ "text": "go\n", "wait_s": LONG });
        let settled = call(&mut client, "exec_input", &program, arguments);
        let is_answered = printed(&settled).ends_with("answer\r\n> ");
        assert_eq!(settled.get("waiting_for_input").is_some(), is_answered, "{settled}");
        client.call("exec_cancel", json!({ "exec_id": program["exec_id"], "grace_s": 0 }));
    }
}

fn a_prompt_is_reported_after_every_kind_of_wait(world: &World) {
    let mut client = client(world);
    let repl = in_terminal(&mut client, &["env", "PYTHON_BASIC_REPL=1", "python3", "-q"]);
    let answer = call(&mut client, "exec_input", &repl, json!({ "text": "6*7\n" }));
    assert_eq!(answer["waiting_for_input"], ">>> ");
    let after = repl["next_seq"].clone();
    for wait in [
        json!({ "after_seq": after, "until": "output", "wait_s": LONG }),
        json!({ "after_seq": after, "pattern": "^42$", "wait_s": LONG }),
        json!({ "after_seq": after, "pattern": "^43$", "wait_s": 0.5 }),
        json!({ "after_seq": after, "until": "end", "wait_s": 0.5 }),
    ] {
        let page = call(&mut client, "exec_poll", &repl, wait.clone());
        assert_eq!(page["waiting_for_input"], ">>> ", "{wait} gave {page}");
    }
    let text = text_of(&mut client, "exec_poll", &repl, json!({ "pattern": "^42$" }));
    assert!(text.contains("waiting for input: \">>> \"; answer with exec_input"), "{text}");
    // The control: a program that goes on.
    let arguments =
        json!({ "text": "import time; print('go'); time.sleep(1000)\n", "pattern": "^go" });
    let busy = call(&mut client, "exec_input", &repl, arguments);
    assert_eq!((busy.get("waiting_for_input"), busy.get("note")), (None, None), "{busy}");
    // A prompt is shown as it was printed.
    let script = "printf 'Cafe\\xcc\\x81 \\\\n \"y\"? '; read -r answer";
    let asked = in_terminal(&mut client, &["bash", "-c", script]);
    let text = text_of(&mut client, "exec_poll", &asked, json!({}));
    assert!(text.contains("waiting for input: \"Cafe\u{301} \\n \"y\"? \";"), "{text}");
}

/// A menu without marks but for reverse video.
const MENU: &str = "
import curses
def menu(screen):
    curses.curs_set(0)
    items, at = ['apples', 'pears', 'plums'], 0
    while True:
        screen.erase()
        for place, item in enumerate(items):
            screen.addstr(place + 1, 2, item, curses.A_REVERSE if place == at else 0)
        screen.refresh()
        key = screen.getch()
        if key == curses.KEY_DOWN: at = (at + 1) % 3
curses.wrapper(menu)
";

fn the_selected_item_of_a_menu_is_highlighted(world: &World) {
    let mut client = client(world);
    let menu = in_terminal(&mut client, &["python3", "-c", MENU]);
    let arguments = json!({ "screen": true, "until": "waiting" });
    let seen = call(&mut client, "exec_poll", &menu, arguments);
    let mark = |row: u16, text: &str| json!([{ "row": row, "col": 2, "text": text }]);
    assert_eq!(seen["screen"]["highlighted"], mark(1, "apples"), "{seen}");
    // A hidden cursor has no place, and says nothing about what is asked.
    assert_eq!(seen["screen"].get("cursor"), None);
    assert_eq!(seen["waiting_for_input"], "", "{seen}");
    let arguments = json!({ "keys": ["down"], "screen": true });
    let seen = call(&mut client, "exec_input", &menu, arguments);
    assert_eq!(seen["screen"]["highlighted"], mark(2, "pears"));
    let arguments = json!({ "screen": true, "until": "waiting" });
    let text = text_of(&mut client, "exec_poll", &menu, arguments);
    assert!(text.contains("cursor hidden") && text.contains("waiting for input;"), "{text}");
    assert!(text.contains("[highlighted: row 2 \"pears\"]"), "{text}");
    let shown = world.text(["logs", "--screen", "--json", menu["exec_id"].as_str().unwrap()]);
    assert!(shown.contains("\"pears\"") && shown.contains("highlighted"), "{shown}");
}

fn mode_switches_are_shown_to_operators_alone(world: &World) {
    let mut client = client(world);
    let script =
        "printf '\\033[?2004h\\033[1m> '; read -r a; printf '\\033[?2004l\\033[mend> '; read -r b";
    let run = in_terminal(&mut client, &["bash", "-c", script]);
    assert_eq!(run["stdout"], "\u{1b}[1m> ");
    let answer = call(&mut client, "exec_input", &run, json!({ "text": "go\n" }));
    assert_eq!(printed(&answer), "go\r\n\u{1b}[mend> ");
    let exec = run["exec_id"].as_str().unwrap();
    client.call("exec_cancel", json!({ "exec_id": exec, "grace_s": 0 }));
    let raw = world.text(["logs", exec]);
    assert!(raw.contains("\u{1b}[?2004h") && raw.contains("\u{1b}[?2004l"), "{raw:?}");
}

fn a_large_screen_says_that_it_is_cut(world: &World) {
    let mut client = client(world);
    let run = json!({
        "cell": "c", "argv": ["cat"], "rows": 1000, "cols": 1000, "wait_s": 0,
    });
    let run = client.call("exec_run", run);
    let seen = call(&mut client, "exec_poll", &run, json!({ "screen": true }));
    let screen = &seen["screen"];
    assert_eq!((&screen["size"], &screen["cut_to"]), (&json!([1000, 1000]), &json!([200, 500])));
    assert_eq!(screen.get("partial"), None);
    let text = text_of(&mut client, "exec_poll", &run, json!({ "screen": true }));
    assert!(text.contains("cut to 200x500") && !text.contains("missing"), "{text}");
}
