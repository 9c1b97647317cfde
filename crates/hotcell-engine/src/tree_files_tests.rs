//! Trees on disk: only what changed is written, and nothing but files of servers.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use hotcell_model::Tenant;
use tempfile::TempDir;

use crate::tree_files::{INDEX, MOST_BYTES, TreeFiles, TreeSource};

#[derive(Default)]
struct Source(Vec<(String, String)>);

impl Source {
    fn of(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect())
    }
}

impl TreeSource for Source {
    fn paths(&self) -> Vec<String> {
        self.0.iter().map(|(path, _)| path.clone()).collect()
    }

    fn read(&self, path: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| known == path).map(|(_, text)| text.clone())
    }

    fn index(&self, left_out: usize) -> String {
        format!("{} files, {left_out} left out\n", self.0.len())
    }
}

struct World {
    home: TempDir,
    files: TreeFiles,
    tenant: Tenant,
}

impl World {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        let files = TreeFiles::at(home.path().join("tools"));
        Self { home, files, tenant: "acme".parse().unwrap() }
    }

    fn tree(&self) -> PathBuf {
        self.files.directory(&self.tenant)
    }

    fn write(&self, source: &Source) -> usize {
        self.files.write(&self.tenant, source).unwrap()
    }

    /// What is in the tree, by path.
    fn content(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.tree()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    left.push(path);
                } else {
                    let name = path.strip_prefix(self.tree()).unwrap().display().to_string();
                    found.insert(name, fs::read_to_string(&path).unwrap());
                }
            }
        }
        found
    }

    fn inode(&self, path: &str) -> u64 {
        fs::metadata(self.tree().join(path)).unwrap().ino()
    }
}

#[test]
fn only_what_is_different_is_written() {
    let world = World::new();
    assert!(!world.files.is_there(&world.tenant));
    let first = Source::of(&[("a/x.pyi", "x"), ("a/y.pyi", "y"), ("b/z.d.ts", "z")]);
    assert_eq!(world.write(&first), 4);
    assert!(world.files.is_there(&world.tenant));
    assert_eq!(world.files.tenants().unwrap(), std::slice::from_ref(&world.tenant));
    assert_eq!(world.write(&first), 0);
    let (directory, same, changed) =
        (world.inode(""), world.inode("a/x.pyi"), world.inode("a/y.pyi"));

    let second = Source::of(&[("a/x.pyi", "x"), ("a/y.pyi", "Y"), ("c/new.pyi", "n")]);
    assert_eq!(world.write(&second), 3);
    let expected =
        [(INDEX, "3 files, 0 left out\n"), ("a/x.pyi", "x"), ("a/y.pyi", "Y"), ("c/new.pyi", "n")];
    assert_eq!(world.content(), expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert!(!world.tree().join("b").exists());
    // What is mounted stays the same directory, and a file that changed is another one.
    assert_eq!((world.inode(""), world.inode("a/x.pyi")), (directory, same));
    assert_ne!(world.inode("a/y.pyi"), changed);
}

#[test]
fn everybody_may_read_and_the_way_there_stays_closed() {
    let world = World::new();
    world.write(&Source::of(&[("a/x.pyi", "x")]));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&world.home.path().join("tools")), 0o700);
    assert_eq!((mode(&world.tree()), mode(&world.tree().join("a"))), (0o755, 0o755));
    assert_eq!(mode(&world.tree().join("a/x.pyi")), 0o644);
    // And again, if somebody changed it.
    fs::set_permissions(world.tree(), Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(world.tree().join("a/x.pyi"), Permissions::from_mode(0o600)).unwrap();
    world.write(&Source::of(&[("a/x.pyi", "x")]));
    assert_eq!((mode(&world.tree()), mode(&world.tree().join("a/x.pyi"))), (0o755, 0o644));
}

#[test]
fn names_that_lead_elsewhere_are_left_out() {
    let world = World::new();
    let long = format!("a/{}.pyi", "x".repeat(300));
    let bad = [
        "../out.pyi",
        "a/../out.pyi",
        "/etc/out.pyi",
        "a/b/out.pyi",
        "a/.pyi",
        "a/x",
        "a/x.sh",
        "x.pyi",
        "./x.pyi",
        "a/x y.pyi",
        "a\0/x.pyi",
        long.as_str(),
    ];
    let files: Vec<(&str, &str)> =
        bad.iter().map(|path| (*path, "bad")).chain([("a/good.pyi", "good")]).collect();
    world.write(&Source::of(&files));
    let content = world.content();
    assert_eq!(content.keys().collect::<Vec<_>>(), [INDEX, "a/good.pyi"]);
    assert_eq!(content[INDEX], format!("13 files, {} left out\n", bad.len()));
    let beside: Vec<_> = fs::read_dir(world.home.path()).unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
}

#[test]
fn what_lies_in_the_way_is_replaced_and_not_followed() {
    let world = World::new();
    let source = Source::of(&[("a/x.pyi", "x"), ("b/y.pyi", "y")]);
    world.write(&source);
    let outside = world.home.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("y.pyi"), "the host's").unwrap();
    fs::remove_file(world.tree().join("a/x.pyi")).unwrap();
    symlink(outside.join("y.pyi"), world.tree().join("a/x.pyi")).unwrap();
    fs::remove_dir_all(world.tree().join("b")).unwrap();
    symlink(&outside, world.tree().join("b")).unwrap();
    fs::create_dir(world.tree().join("a/stray")).unwrap();
    world.write(&source);
    assert_eq!(fs::read_to_string(outside.join("y.pyi")).unwrap(), "the host's");
    let content = world.content();
    assert_eq!((content["a/x.pyi"].as_str(), content["b/y.pyi"].as_str()), ("x", "y"));
    assert_eq!(content.len(), 3);
    assert!(!world.tree().join("a/stray").exists());
}

#[test]
fn no_server_takes_the_room_of_another() {
    let world = World::new();
    let much = "m".repeat(usize::try_from(MOST_BYTES).unwrap() / 5);
    let mut files: Vec<(String, String)> =
        (0..4).map(|n| (format!("greedy/t{n}.pyi"), much.clone())).collect();
    files.push(("modest/t.pyi".to_owned(), "small".to_owned()));
    world.write(&Source(files));
    let content = world.content();
    assert_eq!(content["modest/t.pyi"], "small");
    assert_eq!(content.len(), 4, "two of the greedy one's, the other's, the index");
    assert_eq!(content[INDEX], "5 files, 2 left out\n");
}

#[test]
fn what_a_killed_writer_left_is_in_nobodys_way() {
    let world = World::new();
    let staging = world.home.path().join("tools/.new");
    fs::create_dir_all(staging.join("deep")).unwrap();
    fs::write(staging.join("file"), "half").unwrap();
    fs::create_dir(world.tree()).unwrap();
    assert!(!world.files.is_there(&world.tenant), "a tree without its index is not whole");
    world.write(&Source::of(&[("a/x.pyi", "x")]));
    assert!(!staging.exists());
    assert_eq!(world.content().len(), 2);
}

#[test]
fn many_writers_take_turns() {
    let world = World::new();
    let texts = ["one", "two", "three", "four"];
    std::thread::scope(|scope| {
        for text in texts {
            let world = &world;
            scope.spawn(move || {
                let files: Vec<(String, String)> = (0..20)
                    .map(|n| (format!("a/t{n}.pyi"), format!("{text} {n}")))
                    .chain([(format!("of_{text}/t.pyi"), text.to_owned())])
                    .collect();
                for _ in 0..5 {
                    world.write(&Source(files.clone()));
                }
            });
        }
    });
    // Whoever was last wrote all of it.
    let content = world.content();
    let last = texts.iter().find(|text| content.contains_key(&format!("of_{text}/t.pyi"))).unwrap();
    assert_eq!(content.len(), 22, "{content:?}");
    assert!((0..20).all(|n| content[&format!("a/t{n}.pyi")] == format!("{last} {n}")));
}
