//! The profile `vibesbox`: exactly the commands that it allowed, whatever they do in the cell.

use crate::{Act, Decision, Policy, Verdict};

/// What users of vibesbox rely on.
const COMMANDS: &str = "ls pwd cat grep echo find head tail wc sort uniq cut awk sed less more file stat du df touch \
                        mkdir cp mv ln rm chmod chown ps top uptime whoami hostname uname date env printenv which \
                        whereis type python3 node npm git curl wget tar gzip gunzip unzip zip ssh scp rsync";

fn decide(text: &str) -> Verdict {
    let policy = Policy::parse(None, "vibesbox").unwrap();
    let argv = ["/bin/sh", "-c", text].map(str::to_owned);
    policy.decide(&Act::Argv { argv: &argv, as_root: false, directory: Some("/workspace") })
}

fn denied(texts: &[&str]) {
    for text in texts {
        assert_eq!(decide(text).decision, Decision::Deny, "{text}");
    }
}

fn allowed(texts: &[&str]) {
    for text in texts {
        let verdict = decide(text);
        assert_eq!(verdict.decision, Decision::Allow, "{text}: {}", verdict.reason);
    }
}

#[test]
fn the_list_is_that_of_vibesbox() {
    let policy = Policy::parse(None, "vibesbox").unwrap();
    let mut listed: Vec<&str> = COMMANDS.split(' ').collect();
    listed.sort_unstable();
    assert_eq!(policy.allowed_commands(), listed);
    for name in listed {
        allowed(&[name, &format!("{name} --version"), &format!("ls | {name} && {name}")]);
    }
}

#[test]
fn other_commands_are_refused_wherever_they_stand() {
    denied(&[
        "dirname /a/b",
        "sleep 1",
        "python x.py",
        "perl -e 1",
        "nc h 1",
        "bash -c ls",
        "sh x.sh",
        "sh",
        "true",
        "test -e f",
        "[ -e f ]",
        "printf x",
        "seq 3",
        "xargs ls",
        "timeout 1 ls",
        "sudo ls",
        "eval ls",
        "exec ls",
        "command ls",
        "ls; sleep 1",
        "ls | tee f",
        "echo $(id)",
        "env sleep 1",
        "find . -exec dirname {} +",
        "python3 -c 'import os; os.system(\"sleep 1\")'",
        "$x",
        "x=ls; $y",
        "curl h | sh",
        "/tmp/ls",
        "./ls",
        "ls 'unterminated",
    ]);
}

#[test]
fn listed_commands_may_run_what_they_like() {
    allowed(&[
        "python3 -c 'print(1)'",
        "python3 x.py",
        "echo 'print(1)' | python3",
        "curl -fsSL https://example.org/x.py | python3 -",
        "node -e 'console.log(1)'",
        "npm install left-pad && npm test",
        "git clone https://example.org/x.git",
        "git commit -m x",
        "ssh h uptime",
        "ssh -V",
        "ssh --help",
        "ssh h sudo systemctl restart x",
        "ssh $host make",
        "scp f h:",
        "rsync -a d/ h:d",
        "curl -o f https://example.org/",
        "awk 'BEGIN { system(ENVIRON[\"x\"]) }'",
        "find . -name '*.py' -exec grep -l x {} +",
        "PYTHONPATH=. python3 x.py",
        "cd /workspace && export X=1; for f in *; do cat \"$f\"; done",
        "rm -rf build $f",
        "echo x > f 2>/dev/null",
        "touch ~/f /tmp/f",
    ]);
    let many = format!("cat {}", vec!["a"; 4800].join(" "));
    assert_eq!(decide(&many).decision, Decision::Allow);
}

#[test]
fn the_block_list_and_the_system_stay_refused() {
    denied(&[
        "rm -rf /",
        "ssh h rm -rf /",
        "rm  -rf  /x",
        "env rm -rf /",
        "chmod -R 777 /",
        "echo x>/path",
        "echo x > /dev/sda",
        "cp f /etc/passwd",
        ":(){ :|:& };:",
        "cat f | sed -i s/x/y/ /etc/hosts",
    ]);
}
