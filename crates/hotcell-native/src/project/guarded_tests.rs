//! What makes the host run something, by its name and by where it leads.

use std::path::Path;

use super::changes::leads_out;
use super::guarded::by_name;

fn is_guarded(path: &str) -> bool {
    let there = ["vendor/repo/HEAD", "vendor/half/objects", "half/config"];
    by_name(Path::new(path), false, |path| there.iter().any(|it| path == Path::new(it))).is_some()
}

#[test]
fn hooks_settings_and_tasks_are_guarded_wherever_they_are() {
    for path in [
        ".git/hooks/pre-commit",
        ".git/config",
        ".GIT/Config",
        ".git/config.worktree",
        ".git/modules/sub/config",
        ".git/worktrees/x/config.worktree",
        "deep/down/.git/hooks/post-checkout",
        "sub/.git",
        "vendor/repo/config",
        "vendor/repo/commondir",
        "vendor/half/HEAD",
        "half/HEAD",
        ".git/commondir",
        "vendor/repo/hooks/pre-push",
        ".envrc",
        "sub/.envrc",
        ".vscode/tasks.json",
        "sub/.idea/workspace.xml",
        ".claude/settings.json",
        ".mcp.json",
        "thing.code-workspace",
        ".husky/pre-commit",
    ] {
        assert!(is_guarded(path), "{path}");
    }
}

#[test]
fn sources_and_what_git_only_keeps_are_not() {
    for path in [
        "src/main.rs",
        "Makefile",
        "package.json",
        ".git/index",
        ".git/HEAD",
        ".git/objects/ab/cdef",
        ".git/refs/heads/main",
        "config",
        "HEAD",
        "objects/HEAD.txt",
        "hooks/use_thing.ts",
        "app/config/database.yml",
        "docs/vscode.md",
        ".gitignore",
    ] {
        assert!(!is_guarded(path), "{path}");
    }
}

#[test]
fn links_that_may_lead_out_are_told_from_those_that_cannot() {
    let out = |link: &str, target: &str| leads_out(Path::new(link), Path::new(target));
    for (link, target) in [
        ("l", "/etc/passwd"),
        ("l", ".."),
        ("l", "../other"),
        ("a/l", "../../x"),
        // `a` may be a link to `.`.
        ("l", "a/.."),
        ("b/c/l", "../x/../../y"),
    ] {
        assert!(out(link, target), "{link} -> {target}");
    }
    for (link, target) in
        [("l", "a"), ("l", "./a/b"), ("a/l", "../b"), ("a/b/l", "../../c/d"), ("l", ".")]
    {
        assert!(!out(link, target), "{link} -> {target}");
    }
}
