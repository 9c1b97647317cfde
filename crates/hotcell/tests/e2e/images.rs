//! Cells that begin with images, without an engine for containers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::world::{Kind, World, eventually};

in_every_world! {
    a_cell_has_the_files_of_its_image,
    what_upper_layers_remove_is_gone,
    a_forgotten_image_stays_for_its_cells,
    a_changed_layer_is_refused_and_leaves_nothing,
    an_import_that_is_killed_is_done_again,
    imports_at_once_share_their_layers,
    a_layer_that_is_not_whole_is_made_anew,
    a_cell_with_a_directory_of_the_host_lets_go_of_its_image,
}

in_worlds! { [root]
    names_that_are_no_images_are_told,
}

const TOOLS: [&str; 12] =
    ["sh", "cat", "ls", "id", "echo", "touch", "rm", "mkdir", "test", "env", "sleep", "stat"];

fn run(program: &str, args: &[&str], at: &Path) -> String {
    let done = Command::new(program).args(args).current_dir(at).output().unwrap();
    assert!(done.status.success(), "{program} {args:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// The files of a root with a shell in it.
fn small_root(place: &Path) -> PathBuf {
    let root = place.join("root");
    for directory in ["bin", "etc", "opt/old", "root", "tmp", "usr/share"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    for tool in TOOLS {
        symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    fs::write(root.join("etc/only-here"), "of the image\n").unwrap();
    fs::write(root.join("etc/gone"), "of the first layer\n").unwrap();
    fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nother:x:7:7::/:/bin/sh\n")
        .unwrap();
    fs::write(root.join("opt/old/file"), "of the first layer\n").unwrap();
    root
}

fn pack(directory: &Path, to: &Path) {
    let to = to.to_str().unwrap();
    run("tar", &["--owner=0", "--group=0", "--numeric-owner", "-cf", to, "."], directory);
}

fn digest(file: &Path) -> String {
    run("sha256sum", &[file.to_str().unwrap()], Path::new("/"))[..64].to_owned()
}

fn own(world: &World, file: &Path) -> String {
    world.own(file);
    file.to_str().unwrap().to_owned()
}

/// An archive of a root in the world's home.
fn root_archive(world: &World) -> String {
    let place = tempfile::tempdir().unwrap();
    let archive = world.home().join("root.tar");
    pack(&small_root(place.path()), &archive);
    own(world, &archive)
}

/// An archive as `docker save` writes it, of two layers.
fn saved_archive(world: &World, name: &str) -> String {
    let place = tempfile::tempdir().unwrap();
    let saved = place.path().join("saved");
    fs::create_dir(&saved).unwrap();
    pack(&small_root(place.path()), &saved.join("one.tar"));
    let upper = place.path().join("upper");
    fs::create_dir_all(upper.join("etc")).unwrap();
    fs::create_dir_all(upper.join("opt")).unwrap();
    fs::write(upper.join("etc/.wh.gone"), "").unwrap();
    fs::write(upper.join("opt/.wh..wh..opq"), "").unwrap();
    fs::write(upper.join("opt/new"), "of the second layer\n").unwrap();
    pack(&upper, &saved.join("two.tar"));
    let ids = ["one.tar", "two.tar"].map(|it| format!("sha256:{}", digest(&saved.join(it))));
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    };
    let config = json!({
        "architecture": architecture, "os": "linux",
        "config": { "Env": ["WORD=from the image", "PATH=/bin", "HOME=/root"] },
        "rootfs": { "type": "layers", "diff_ids": ids },
    });
    fs::write(saved.join("config.json"), config.to_string()).unwrap();
    let config = format!("{}.json", digest(&saved.join("config.json")));
    fs::rename(saved.join("config.json"), saved.join(&config)).unwrap();
    let manifest =
        json!([{ "Config": config, "RepoTags": [name], "Layers": ["one.tar", "two.tar"] }]);
    fs::write(saved.join("manifest.json"), manifest.to_string()).unwrap();
    let archive = world.home().join("saved.tar");
    let to = archive.to_str().unwrap();
    let mut args = vec!["-cf", to];
    args.extend(["one.tar", "two.tar", &config, "manifest.json"]);
    run("tar", &args, &saved);
    own(world, &archive)
}

fn images(world: &World) -> Vec<Value> {
    world.json(["image", "list", "--json"])["images"].as_array().unwrap().clone()
}

/// How many layers lie on the disk, whole or not.
fn layers(world: &World) -> usize {
    fs::read_dir(world.state_dir().join("native/images/layers")).map_or(0, Iterator::count)
}

fn a_cell_has_the_files_of_its_image(world: &World) {
    let archive = root_archive(world);
    let named = world.text(["image", "import", "--name", "small:1", &archive]);
    assert_eq!(named, "docker.io/library/small:1\n");
    let look = "cat /etc/only-here; id -u; pwd; test -e /usr/bin || echo no programs of the host; \
                touch written; ls; cat /etc/passwd; cat /etc/hostname";
    assert_eq!(
        world.text(["run", "--image", "small:1", "--cell", "small", look]),
        "of the image\n1000\n/workspace\nno programs of the host\nwritten\n\
         root:x:0:0::/root:/bin/sh\nother:x:7:7::/:/bin/sh\n\
         cell:x:1000:1000:cell:/home/cell:/bin/sh\ncell\n"
    );
    // Whoever has one id alone owns what is root's; it stays in the cell.
    if world.kind() != Kind::SingleId {
        world.hotcell(["run", "--cell", "small", "touch /etc/refused"]).run().exited(1);
    }
    // Checkpoints and forks work as in any other cell.
    let made = world.json(["checkpoint", "create", "small", "--json"]);
    let checkpoint = made["id"].as_str().unwrap().to_owned();
    world.text(["run", "--cell", "small", "rm written; touch other"]);
    world.text(["checkpoint", "restore", "small", &checkpoint]);
    assert_eq!(world.text(["run", "--cell", "small", "ls"]), "written\n");
    assert_eq!(world.json(["info", "small", "--json"])["cell"]["image"], "small:1");
}

fn what_upper_layers_remove_is_gone(world: &World) {
    world.text(["image", "import", &saved_archive(world, "some/saved:2")]);
    let listed = images(world);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(
        (&listed[0]["name"], &listed[0]["layers"]),
        (&json!("docker.io/some/saved:2"), &json!(2))
    );
    let look =
        "test -e /etc/gone || echo gone; ls /opt; cat /opt/new; env | grep -c ^WORD=; echo $HOME";
    let look = look.replace("env | grep -c ^WORD=", "echo $WORD");
    assert_eq!(
        world.text(["run", "--image", "some/saved:2", &look]),
        "gone\nnew\nof the second layer\nfrom the image\n/home/cell\n"
    );
    // By its content as well.
    let pinned = format!("some/saved@{}", listed[0]["digest"].as_str().unwrap());
    assert_eq!(world.text(["run", "--image", &pinned, "echo here"]), "here\n");
}

fn a_forgotten_image_stays_for_its_cells(world: &World) {
    let archive = saved_archive(world, "some/saved:2");
    world.text(["image", "import", &archive]);
    world.text(["image", "import", "--name", "again:1", &archive]);
    assert_eq!((images(world).len(), layers(world)), (2, 2));
    world.text(["run", "--image", "again:1", "--cell", "on-it", "echo x > kept"]);
    for name in ["again:1", "some/saved:2"] {
        world.text(["image", "rm", name]);
    }
    assert_eq!(images(world).len(), 0);
    world.hotcell(["image", "rm", "again:1"]).run().exited(3);
    world.hotcell(["run", "--image", "again:1", "true"]).run().exited(125);
    assert_eq!(
        world.text(["run", "--cell", "on-it", "cat kept /opt/new"]),
        "x\nof the second layer\n"
    );
    world.text(["kill", "--volumes", "--force", "on-it"]);
    eventually("its layers are gone", || layers(world) == 0);
}

fn a_changed_layer_is_refused_and_leaves_nothing(world: &World) {
    let archive = saved_archive(world, "some/saved:2");
    let bytes = fs::read(&archive).unwrap();
    let at = bytes.windows(18).position(|it| it == b"of the first layer").unwrap();
    let mut changed = bytes;
    changed[at] = b'O';
    fs::write(&archive, changed).unwrap();
    let refused = world.hotcell(["image", "import", &archive]).run().exited(2);
    assert!(refused.stderr().contains("is said to be"), "{refused:?}");
    assert_eq!((images(world).len(), layers(world)), (0, 0));
}

fn an_import_that_is_killed_is_done_again(world: &World) {
    let archive = saved_archive(world, "some/saved:2");
    for pause in [0, 1, 3, 10, 30] {
        let client = world.hotcell(["image", "import", &archive]).start();
        std::thread::sleep(std::time::Duration::from_millis(pause));
        client.kill();
    }
    world.text(["image", "import", &archive]);
    assert_eq!(
        world.text(["run", "--image", "some/saved:2", "cat /opt/new"]),
        "of the second layer\n"
    );
    world.text(["image", "rm", "some/saved:2"]);
    eventually("nothing is left", || {
        world.text(["image", "import", &archive]);
        world.text(["image", "rm", "some/saved:2"]);
        layers(world) == 0
    });
}

fn a_cell_with_a_directory_of_the_host_lets_go_of_its_image(world: &World) {
    world.text(["image", "import", &saved_archive(world, "some/saved:2")]);
    let project = world.home().join("project");
    fs::create_dir(&project).unwrap();
    let project = own(world, &project);
    // Its ids may be others than those of the image.
    let args = ["run", "--image", "some/saved:2", "--workspace", &project, "--cell", "on-it"];
    let look = world.hotcell(args).args(["cat /opt/new; echo x > made; cat made"]).run();
    assert_eq!(look.succeeded().stdout(), "of the second layer\nx\n");
    let listed = world.json(["image", "list", "--json"]);
    let info = world.json(["info", "--json", "on-it"]);
    assert_eq!(info["image_digest"], listed["images"][0]["digest"], "{info}");
    world.text(["image", "rm", "some/saved:2"]);
    world.text(["kill", "--volumes", "--force", "on-it"]);
    eventually("its layers are gone", || layers(world) == 0);
}

fn a_layer_that_is_not_whole_is_made_anew(world: &World) {
    let archive = saved_archive(world, "some/saved:2");
    let there = || fs::read_dir(world.state_dir().join("native/images/layers")).unwrap();
    let works = || world.text(["run", "--image", "some/saved:2", "cat /opt/new"]);
    for lost in ["files", "layer.json"] {
        world.text(["image", "import", &archive]);
        for layer in there() {
            let lost = layer.unwrap().path().join(lost);
            if lost.is_dir() { fs::remove_dir_all(lost) } else { fs::write(lost, "") }.unwrap();
        }
        world.text(["image", "import", &archive]);
        assert_eq!(works(), "of the second layer\n");
        assert_eq!(layers(world), 2);
    }
}

fn imports_at_once_share_their_layers(world: &World) {
    let archive = saved_archive(world, "some/saved:2");
    let import = |number: u32| {
        let name = format!("copy:{number}");
        world.hotcell(["image", "import", "--name", &name, &archive]).start()
    };
    let live: Vec<_> = (0..4).map(import).collect();
    live.into_iter().for_each(|one| _ = one.finish().succeeded());
    assert_eq!((images(world).len(), layers(world)), (4, 2));
    for number in 0..4 {
        world.text(["image", "rm", &format!("copy:{number}")]);
    }
    assert_eq!(layers(world), 0);
}

fn names_that_are_no_images_are_told(world: &World) {
    let missing = world.hotcell(["spawn", "--image", "nowhere:1", "x"]).run().exited(3);
    assert!(missing.stderr().contains("hotcell image import"), "{missing:?}");
    for name in ["Odd", "a b", "../x", "a@sha256:1"] {
        let refused = world.hotcell(["spawn", "--image", name, "x"]).run().exited(2);
        assert!(refused.stderr().contains("no name of an image"), "{refused:?}");
    }
    let nameless = world.hotcell(["image", "import", &root_archive(world)]).run().exited(2);
    assert!(nameless.stderr().contains("--name"), "{nameless:?}");
    let text = world.home().join("text");
    fs::write(&text, "no archive\n".repeat(100)).unwrap();
    world.hotcell(["image", "import", "--name", "x", text.to_str().unwrap()]).run().exited(2);
    world.hotcell(["image", "import", "--name", "x", "/nowhere"]).run().exited(3);
}
