//! The profile `allowlist`: what runs something else by a way around the list, and its ordinary relatives.

use crate::{Act, Decision, Policy, Verdict};

fn decide(profile: &str, text: &str) -> Verdict {
    let policy = Policy::parse(None, profile).unwrap();
    policy.decide(&Act::Shell { text, as_root: false, directory: Some("/workspace") })
}

fn denied(texts: &[&str]) {
    for text in texts {
        assert_eq!(decide("allowlist", text).decision, Decision::Deny, "{text}");
    }
}

fn allowed(texts: &[&str]) {
    for text in texts {
        let verdict = decide("allowlist", text);
        assert_eq!(verdict.decision, Decision::Allow, "{text}: {}", verdict.reason);
    }
}

fn reason(text: &str) -> String {
    decide("allowlist", text).reason
}

#[test]
fn values_of_options_are_not_taken_for_scripts_of_sed() {
    denied(&[
        "sed -l 5 '1e factor 6' f",
        "sed -nl 5 '1e factor 6' f",
        "sed -E -l 5 '1e factor 6' f",
        "sed -s -l 3 -n '1e factor 6' f",
        "sed -l5 '1e factor 6' f",
        "sed --line-length 5 '1e factor 6' f",
        "sed --l 5 '1e factor 6' f",
        "sed -l 5 'w /etc/q' f",
        "sed -l '1e factor 6' f",
        "sed -i -E 's/x/y/' /etc/passwd",
        "POSIXLY_CORRECT=1 sed '1e factor 6' -e p f",
    ]);
    allowed(&[
        "sed -l 5 -n '2,3p' f",
        "sed -i.bak 's/x/y/' f",
        "sed -i -E 's/x/y/' f",
        "sed -n '$p' f",
        "sed -e p -e d f",
    ]);
}

#[test]
fn options_of_several_letters_and_shortened_ones_are_read() {
    denied(&[
        "zip a.zip f -T -TT='factor 6'",
        "zip -TTfactor -T a.zip f",
        "zip -qTT 'factor 6' -T a.zip f",
        "zip -TqTT 'factor 6' a.zip f",
        "zip -rTT 'factor 6' a.zip f",
        "zip -x a @ /etc/z.zip f",
        "zip -qb /tmp /etc/a.zip f",
        "zip -lf /etc/x a.zip f",
        "split --f='factor 6' f",
        "sort --co=factor f",
        "git rebase --ex 'factor 6'",
        "unzip -D a.zip -d /etc",
        "unzip -qod /etc a.zip",
        "find . -fprint a -fprint /etc/b",
        "tar cf a.tar ./$f",
        "echo | xargs --process-slot-var=PATH ls",
    ]);
    allowed(&[
        "zip -rq a.zip src -x '*.o'",
        "zip -T a.zip f",
        "split -l 5 f",
        "sort -u f",
        "unzip -qo a.zip -d out",
        "find . -fprint a",
        "tar cf a.tar ./src",
        "echo | xargs ls",
    ]);
}

#[test]
fn files_that_are_written_are_found_behind_all_options() {
    denied(&[
        "less --LOG-FILE=/etc/x f",
        "less '+s /etc/x' f",
        "less +v f",
        "less --lesskey-content='#env;LESSOPEN=|factor 6' f",
        "less -Nk keys f",
        "xxd -cols 5 f /etc/x",
        "xxd -r -c 5 f /etc/x",
        "xz --files=f",
        "chmod --ref=x /etc/y",
        "yq -s '\"/etc/x\"' f",
        "find -files0-from f -delete",
    ]);
    allowed(&[
        "less +G f; less +/word f; less -N +12 f",
        "xxd -c 5 /etc/hosts; xxd -r f g",
        "xz f",
        "chmod --ref=x y; chmod 644 x",
        "yq -i .a=1 f; yq .a f",
        "find . -name x -delete",
    ]);
}

#[test]
fn programs_are_also_what_they_are_called() {
    denied(&[
        "exec -a factor ls 6",
        "exec -afactor ls 6",
        "exec -la factor ls 6",
        "env -a factor ls 6",
        "env --argv0=factor ls 6",
    ]);
    allowed(&["exec ls 6", "exec -a ls ls 6", "env ls 6"]);
}

#[test]
fn values_are_not_names_of_variables() {
    denied(&[
        "declare \"$(cat f)\"; ls",
        "typeset \"$(cat f)\"; ls",
        "f() { local \"$(cat f)\"; ls; }; f",
        "x=$(cat f); declare $x; ls",
        "x=$(cat f); readonly $x; ls",
        "x=$(cat f); export \"$x\"; ls",
        "read x < f; test -v \"$x\"",
        "read x < f; [ -v \"$x\" ]",
        "read x < f; [[ -v $x ]]",
        "read x < f; printf -v \"$x\" 1",
        "read x < f; printf \"$x\" 1",
        "read x < f; read \"$x\"",
        "read x < f; echo ${!x}",
        "read x < f; unset \"$x\"",
        "read x < f; wait -p \"$x\"",
        "read o x < f; [ \"$o\" \"$x\" ]",
    ]);
    allowed(&[
        "declare x=\"$(cat f)\"; ls",
        "f() { local x=\"$1\"; echo $x; }; f; ls",
        "export A=1 B=\"$x\"; ls",
        "test -v HOME && ls",
        "[ -n \"$x\" ] && [ \"$a\" = \"$b\" ] && [[ $a == $b ]] && ls",
        "printf '%s %s' \"$x\" \"[PATH=$y]\"; ls",
        "while read -r a b; do echo $a; done < f; ls",
        "read -p \"$x\" -t 5 y; ls",
        "for v in A B; do echo ${!v}; done; echo ${!a[@]} ${!a*} ${!#}",
        "getopts ab: o \"$@\"; unset x; ls",
    ]);
}

#[test]
fn values_are_not_arrays_and_arithmetic() {
    denied(&[
        "x=$(cat f); declare -a y=\"$x\"; echo ${y[@]}",
        "x=$(cat f); f() { local -a y=\"$x\"; }; f",
        "declare -A y=\"$(cat f)\"",
        "readonly -a y=\"$(cat f)\"",
        "y=(1); declare y=\"$(cat f)\"",
        "f() { declare -g y=\"$(cat f)\"; }; y=(1); f",
        "declare -a y='(1 $(factor 6))'",
        "read x < f; let \"$x\"",
        "read x < f; declare -i y=$x",
    ]);
    allowed(&[
        "x=1; declare -a y=(1 \"$x\" $(ls)); echo ${y[@]}",
        "declare -A m; m[PATH]=x; ls",
        "f() { local n=$(ls | wc -l); echo $n; }; f; ls",
        "declare -i n=5; let i=i+1; ls",
        "i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; ls",
        "for i in 1 2 3; do echo $((i * 2)); done",
        "n=$(wc -l < f); echo $((n + 1)); [[ $n -eq 1 ]] && ls",
    ]);
}

#[test]
fn variables_that_decide_are_not_set_by_other_names_and_numbers() {
    denied(&[
        "typeset -n p; p=PATH; p=/workspace; ls",
        "declare -n p=q; for p in PATH; do p=/workspace; ls; done",
        "let '1,PATH=5'; ls",
        "declare -i x=PATH=5; ls",
        "declare -i i; i=PATH=5; ls",
        "x='PATH=5'; echo $((x)); ls",
        "test -v 'a[PATH=5]'; ls",
        "declare 'a[PATH=5]=1'; ls",
        "[[ x=PATH=5 -eq 1 ]]; ls",
        "coproc PATH { cat; }; ls",
        "exec {PATH}>/dev/null; ls",
        ": {a[PATH=5]}>/dev/null; ls",
        ": {a[$(factor 6)]}>/dev/null; ls",
        "x=LD_PRELOAD; : \"${!x:=/workspace/x.so}\"; export LD_PRELOAD; ls",
    ]);
    allowed(&[
        "coproc C { cat; }; ls",
        "exec {fd}>/dev/null; ls",
        "x=A; : \"${!x:=1}\"; ls",
        "[[ $a == *PATH=* ]]; ls",
    ]);
}

#[test]
fn directories_do_not_become_repositories() {
    denied(&[
        "mkdir -p r/objects r/refs; cd r; echo 'ref: refs/heads/x' > HEAD; echo x > config; git status",
        "git init --bare r",
        "git init --b r",
        "git init --separate-git-dir=/workspace/x",
        "git init --templ=x",
        "git --git-dir=/workspace/r status",
        "git --git-dir r status",
        "git --bare status",
        "cp x r/HEAD",
        "mv HEAD r",
        "cp -r x/.git/. y",
        "cp -r x/.git/* y",
        "cp -a x/.g* y",
        "mv x/.gi? y",
        "echo x > .gi?/config",
        "ln -s .git/hooks h",
        "cd .git && ln -sr . ../h",
        "gunzip r/HEAD.gz",
        "gzip -d -S.zz r/HEAD.zz",
        "cp -b -S AD x HE",
        "sed -iAD s/x/y/ HE",
        "csplit -f HEA -b 'D%.0d' f 1",
        "git mv x r/HEAD",
        "git merge-file .git/config a b",
        "find x -delete -fprintf .git/config y",
        "echo x > .gitconfig",
    ]);
    allowed(&[
        "git init; git init -b main sub",
        "git --git-dir=.git log; git --git-dir /workspace/a/.git log",
        "git status; git add -A; git commit -m x; git diff HEAD~1",
        "git read-tree -u --reset HEAD; git worktree add x HEAD; git mv a b",
        "rm -rf .git x/.git/index.lock",
        "cp -r src dst; cp src/* dst/; mv *.txt d/; ln -s ../a b",
        "mkdir -p config; echo a > config/x; cp x y/config",
        "gunzip a.gz; xz -d a.tar.xz; csplit -f p -b '%02d' f 3",
    ]);
}

#[test]
fn options_and_verbs_of_git_that_run_something_are_seen() {
    denied(&[
        "git --attr-source log -c alias.x='!factor 6' x",
        "git --namespace x fetch",
        "git config --rename-section foo pager",
        "git config -f /etc/x a.b c",
        "git -c gpg.ssh.defaultKeyCommand='factor 6' commit -S -m x",
        "git grep -nOfactor x",
        "git filter-branch --setup 'factor 6'",
        "git for-each-repo --config=a.b x",
        "git difftool -t vimdiff",
        "git log --output /etc/x",
        "git archive --re=x HEAD",
        "git worktree add -b x /etc/y",
        "git init -b x /etc/y",
        "git -C . -C /etc add x",
    ]);
    allowed(&[
        "git config user.name x; git config -f x a.b c",
        "git grep -n foo src",
        "git log --oneline --output=x",
        "git archive -o x.tar HEAD",
        "git -C sub log",
    ]);
}

#[test]
fn reasons_say_what_is_the_matter() {
    for text in ["echo 'a", "if", "echo hi |", "bash -c 'echo \"'"] {
        assert!(reason(text).starts_with("the text cannot be read: shell, "), "{}", reason(text));
    }
    let verdict = decide("careful", "echo 'a");
    assert!(verdict.reason.ends_with(": shell, a single quote is not closed"), "{verdict}");
    for text in ["cp $a $b", "rm $f", "mkdir -p build/$(uname -m)", "echo x > $f"] {
        assert!(reason(text).contains("cannot be known before it runs"), "{}", reason(text));
    }
    for text in ["cp a /etc/b", "rm /etc/b", "mkdir /x", "echo x > /x"] {
        assert_eq!(reason(text), "writes outside of /workspace and /tmp");
    }
    for (path, rule) in [("/", Some("block-rm-root-by-code")), ("/tmp/x", None)] {
        let text = format!("python3 -c 'import shutil; shutil.rmtree(\"{path}\")'");
        assert_eq!(decide("blocklist", &text).rule.as_deref(), rule, "{text}");
    }
}

#[test]
fn redirections_are_no_commands() {
    for text in ["echo x > /etc/y", "sed 'w /etc/y' f"] {
        let verdict = decide("allowlist", text);
        let part = verdict.deciding().unwrap();
        assert_eq!((part.finding.name.as_deref(), part.finding.what.as_str()), (None, "> /etc/y"));
        assert!(verdict.parts.iter().any(|part| part.finding.name.is_some()), "{text}");
    }
}
