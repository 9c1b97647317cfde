//! Cells in containers of a Docker engine.

use std::fs;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::world::{Chance, World, ask_engine, docker, eventually, labelled, tell_engine, unique};

in_worlds! { [docker, remote]
    commands_reach_nothing_of_their_supervisor,
    any_image_will_do,
    hostile_images_gain_nothing,
    what_an_image_fills_is_still_the_cells,
    whoever_runs_commands_has_a_name,
    a_client_that_is_killed_leaves_nothing_for_good,
    state_directories_share_an_engine_and_no_cells,
}

in_worlds! { [docker]
    a_container_is_hardened,
    a_container_that_somebody_removed_is_a_cell_that_sleeps,
    a_volume_that_somebody_removed_is_told,
    an_image_stays_what_it_was_for_its_cell,
    an_image_that_somebody_removed_is_told_and_can_come_back,
    what_a_container_cannot_do_is_said,
    an_engine_or_an_image_that_is_not_there_is_told,
    without_its_engine_a_cell_goes_on,
    a_cell_is_at_the_engine_it_was_made_at,
}

fn container(world: &World, cell: &str) -> serde_json::Value {
    ask_engine("GET", &format!("/containers/hotcell-{}/json", world.cell_id(cell)))
}

fn a_container_is_hardened(world: &World) {
    world.text(["spawn", "hard", "--memory", "256M", "--pids", "64", "--cpus", "0.5"]);
    let made = container(world, "hard");
    assert_eq!(world.json(["info", "--json", "hard"])["image_digest"], made["Image"]);
    let config = &made["HostConfig"];
    assert_eq!(config["Privileged"], false);
    assert_eq!(config["ReadonlyRootfs"], true);
    assert_eq!(config["NetworkMode"], "none");
    assert_eq!(config["CapDrop"], serde_json::json!(["ALL"]));
    assert!(config["CapAdd"].is_null(), "{config}");
    assert_eq!(config["Memory"], 256 << 20);
    assert_eq!(config["PidsLimit"], 64);
    assert_eq!(config["NanoCpus"], 500_000_000);
    assert_eq!(made["Config"]["User"], "1000:1000");
    assert!(!made.to_string().contains("docker.sock"));

    let inside = world.text([
        "run",
        "--cell",
        "hard",
        "grep -E '^(Uid|Cap...|NoNewPrivs|Seccomp):' /proc/self/status",
    ]);
    for line in [
        "Uid:\t1000\t1000\t1000\t1000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(inside.contains(line), "{line} is not in {inside}");
    }
    let refused = world.hotcell(["run", "--cell", "hard", "touch /etc/made"]).run();
    assert_eq!(refused.code(), 1, "{refused:?}");
    // Where something may be written it can be: the refusals are none of a broken cell.
    world.text([
        "run",
        "--cell",
        "hard",
        "touch /workspace/a /home/cell/a /tmp/a /var/tmp/a /run/a /dev/shm/a",
    ]);
}

fn commands_reach_nothing_of_their_supervisor(world: &World) {
    world.text(["spawn", "nosy"]);
    let run = |command: &str| world.hotcell(["run", "--cell", "nosy", command]).run();
    for denied in [
        "cat /proc/1/environ",
        "ls /proc/1/fd/",
        "cat /.hotcell/bin/hotcell",
        "touch /.hotcell/birth/x",
        "chmod 700 /.hotcell/birth",
        "rm /dev/tools/socket",
        "kill -KILL 1; kill -0 1 && exit 1",
        "chrt -i -p 0 1",
        "taskset -p 1 1",
        "renice 19 1",
    ] {
        let refused = run(denied);
        assert_ne!(refused.code(), 0, "{denied}: {refused:?}");
    }
    run("chrt -i 0 true && taskset 1 true && nice true").succeeded();
    // Of its socket and its records nothing is to be found in it at all.
    let found = run(
        "find /.hotcell ! -type d ! -path /.hotcell/bin/hotcell; find / -xdev -name journal 2>/dev/null; \
         find / -xdev -name '*.sock' 2>/dev/null; \
         grep -E 'records|(link|sockets|keeper|carrier).sock' /proc/self/mountinfo",
    );
    assert_eq!(found.stdout(), "", "{found:?}");
    // Which are there, for whoever is outside.
    let socket = world.cells_dir().join(world.cell_id("nosy")).join("link.sock");
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(std::io::Read::read(&mut stream, &mut [0; 10]).unwrap(), 10);
}

fn a_container_that_somebody_removed_is_a_cell_that_sleeps(world: &World) {
    world.text(["spawn", "lasting", "--persistent"]);
    world.text(["run", "--cell", "lasting", "echo kept > file; echo kept > ~/file"]);
    let exec = world.detach("lasting", "sleep 1000");
    let id = world.cell_id("lasting");
    ask_engine("DELETE", &format!("/containers/hotcell-{id}?force=1&v=1"));
    assert_eq!(world.ended(&exec)["end"]["cause"], "lost");
    assert_eq!(world.text(["run", "--cell", "lasting", "cat file ~/file"]), "kept\nkept\n");
    assert_eq!(labelled(world).len(), 3, "{:?}", labelled(world));
}

/// An archive of files of a root, made by tar.
pub(crate) fn root_archive(world: &World, files: &[(&str, &str)]) -> Vec<u8> {
    let root = world.home().join(unique("root"));
    for (source, target) in files {
        let target = root.join(target);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(source, target).unwrap();
    }
    let packed = std::process::Command::new("tar").arg("-C").arg(&root).args(["-c", "."]).output();
    packed.unwrap().stdout
}

pub(crate) struct EngineImage(pub(crate) String);

impl EngineImage {
    pub(crate) fn give(archive: &[u8]) -> Self {
        let name = unique("hotcell-test-image").to_lowercase();
        let path = format!("/images/create?fromSrc=-&repo={name}&tag=1");
        tell_engine("POST", &path, archive);
        Self(format!("{name}:1"))
    }
}

impl Drop for EngineImage {
    fn drop(&mut self) {
        ask_engine("DELETE", &format!("/images/{}?force=1", self.0));
    }
}

fn any_image_will_do(world: &World) {
    // A shell and nothing else, not even /etc.
    let shell = EngineImage::give(&root_archive(world, &[("/bin/busybox", "bin/sh")]));
    let said = world.text(["run", "--image", &shell.0, "echo $0; echo $HOME; pwd"]);
    assert_eq!(said, "/bin/sh\n/home/cell\n/workspace\n");
    // One program and no shell.
    let bare = EngineImage::give(&root_archive(world, &[("/bin/busybox", "busybox")]));
    assert_eq!(world.text(["run", "--image", &bare.0, "--", "/busybox", "echo", "well"]), "well\n");
}

/// An archive with a shell, links and directories in it.
fn odd_archive(world: &World, links: &[(&str, &str)], directories: &[&str]) -> Vec<u8> {
    let root = world.home().join(unique("odd"));
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    for tool in ["sh", "ls", "cat", "touch", "find", "echo", "grep"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    for directory in directories {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (link, target) in links {
        std::os::unix::fs::symlink(target, root.join(link)).unwrap();
    }
    let packed = std::process::Command::new("tar").arg("-C").arg(&root).args(["-c", "."]).output();
    packed.unwrap().stdout
}

fn hostile_images_gain_nothing(world: &World) {
    for link in ["/workspace", "/var", "/etc"] {
        let image = EngineImage::give(&odd_archive(world, &[(".hotcell", link)], &["var"]));
        let run = world
            .hotcell([
                "run",
                "--image",
                &image.0,
                "touch /.hotcell/birth/x; find / -name '*.sock' -o -name journal; ls /",
            ])
            .run();
        // It is started or not; in neither case has it anything to write to on this side.
        assert!(
            !run.stdout().contains("link.sock") && !run.stdout().contains("journal"),
            "{run:?}"
        );
        let birth = world.cells_dir();
        let made =
            std::process::Command::new("find").arg(&birth).args(["-name", "x"]).output().unwrap();
        assert_eq!(made.stdout, b"", "{link}");
    }
}

fn what_an_image_fills_is_still_the_cells(world: &World) {
    let image =
        EngineImage::give(&odd_archive(world, &[], &["workspace/of-the-image", "home/cell"]));
    let listed = world.text(["run", "--image", &image.0, "touch mine ~/mine; ls"]);
    assert_eq!(listed, "mine\n");
}

fn a_volume_that_somebody_removed_is_told(world: &World) {
    world.text(["spawn", "--persistent", "poor"]);
    let id = world.cell_id("poor");
    ask_engine("DELETE", &format!("/containers/hotcell-{id}?force=1"));
    eventually("its volume is removed", || {
        ask_engine("DELETE", &format!("/volumes/hotcell-{id}-workspace"));
        labelled(world).len() == 1
    });
    let refused = world.hotcell(["run", "--cell", "poor", "true"]).run();
    assert!(refused.stderr().contains("is gone, and its files with it"), "{refused:?}");
}

fn whoever_runs_commands_has_a_name(world: &World) {
    assert_eq!(
        world.text(["run", "whoami; id -gn; getent passwd 0 | cut -d: -f1"]),
        "cell\ncell\nroot\n"
    );
}

fn an_image_that_somebody_removed_is_told_and_can_come_back(world: &World) {
    let archive = root_archive(world, &[("/bin/busybox", "bin/sh"), ("/bin/busybox", "bin/cat")]);
    let image = EngineImage::give(&archive);
    world.text(["run", "--cell", "kept", "--image", &image.0, "echo kept > file"]);
    let id = world.cell_id("kept");
    // Kept aside, to be brought back as it was.
    let saved = world.home().join("saved.tar");
    let save = |args: &[&str]| {
        let (socket, _) = docker().unwrap();
        let mut command = std::process::Command::new("docker");
        command.arg("--host").arg(format!("unix://{socket}")).args(args);
        assert!(command.output().unwrap().status.success(), "{args:?}");
    };
    save(&["save", "--output", saved.to_str().unwrap(), &image.0]);
    ask_engine("DELETE", &format!("/containers/hotcell-{id}?force=1"));
    eventually("its image is removed", || {
        ask_engine("DELETE", &format!("/images/{}?force=1", image.0));
        ask_engine("GET", &format!("/images/{}/json", image.0))["Id"].is_null()
    });
    let refused = world.hotcell(["run", "--cell", "kept", "cat file"]).run();
    assert!(refused.stderr().contains("was removed from the Docker engine"), "{refused:?}");
    save(&["load", "--input", saved.to_str().unwrap()]);
    assert_eq!(world.text(["run", "--cell", "kept", "cat file"]), "kept\n");
}

fn an_image_stays_what_it_was_for_its_cell(world: &World) {
    let archive = |text: &str| {
        let file = world.home().join(unique("release"));
        fs::write(&file, text).unwrap();
        root_archive(
            world,
            &[
                ("/bin/busybox", "bin/sh"),
                ("/bin/busybox", "bin/cat"),
                (file.to_str().unwrap(), "release"),
            ],
        )
    };
    let image = EngineImage::give(&archive("one\n"));
    world.text(["spawn", "old", "--persistent", "--image", &image.0]);
    let (repo, tag) = image.0.split_once(':').unwrap();
    tell_engine(
        "POST",
        &format!("/images/create?fromSrc=-&repo={repo}&tag={tag}"),
        &archive("two\n"),
    );
    let id = world.cell_id("old");
    ask_engine("DELETE", &format!("/containers/hotcell-{id}?force=1"));
    assert_eq!(world.text(["run", "--cell", "old", "cat /release"]), "one\n");
    assert_eq!(world.text(["run", "--image", &image.0, "cat /release"]), "two\n");
}

fn what_a_container_cannot_do_is_said(world: &World) {
    world.text(["spawn", "plain"]);
    let cases: [&[&str]; 4] = [
        &["run", "--cell", "plain", "--as-root", "id"],
        &["run", "--workspace", "/usr/share", "true"],
        &["checkpoint", "create", "plain"],
        &["fork", "plain"],
    ];
    for args in cases {
        let refused = world.hotcell([]).args(args.iter().copied()).run();
        assert_ne!(refused.code(), 0, "{args:?}");
        assert!(refused.stderr().contains("native driver"), "{args:?}: {refused:?}");
    }
    let denied = world.hotcell(["run", "--image", "alpine", "true"]);
    let denied = denied.env("HOTCELL_IMAGES_ALLOW", "debian").run().exited(125);
    assert!(denied.stderr().contains("not among those that may be used"), "{denied:?}");
    let required =
        |layer: &str| world.hotcell(["run", "true"]).env("HOTCELL_DOCKER_REQUIRE", layer);
    let refused = required("private_ids").run();
    assert!(refused.stderr().contains("private_ids is required"), "{refused:?}");
    required("disk_limit").run().succeeded();
}

fn an_engine_or_an_image_that_is_not_there_is_told(world: &World) {
    let nowhere = world.home().join("nowhere.sock");
    let address = format!("unix://{}", nowhere.display());
    let refused = world.hotcell(["run", "true"]).env("HOTCELL_DOCKER_HOST", &address).run();
    assert!(
        refused.stderr().contains(&address) && refused.stderr().contains("is the engine running"),
        "{refused:?}"
    );
    let refused =
        world.hotcell(["run", "true"]).env("HOTCELL_DOCKER_HOST", "tcp://127.0.0.1:1").run();
    assert!(refused.stderr().contains("tcp://127.0.0.1:1: Connection refused"), "{refused:?}");
    let heard = "tcp://192.0.2.1:2375";
    let refused = world.hotcell(["run", "true"]).env("HOTCELL_DOCKER_HOST", heard).run();
    assert!(refused.stderr().contains("without TLS"), "{refused:?}");
    let missing = "localhost:1/no/such:1";
    let refused = world.hotcell(["run", "--image", missing, "true"]).run();
    assert!(
        refused.stderr().contains(missing) && refused.stderr().contains("cannot pull it"),
        "{refused:?}"
    );
    let unnamed = world.hotcell(["run", "true"]).env("HOTCELL_DOCKER_IMAGE", "").run();
    assert!(unnamed.stderr().contains("docker.image"), "{unnamed:?}");
    assert_eq!(labelled(world), Vec::<String>::new());
}

fn a_client_that_is_killed_leaves_nothing_for_good(world: &World) {
    let mut chance = Chance::new();
    for _ in 0..12 {
        let live = world.hotcell(["run", "echo well"]).start();
        std::thread::sleep(Duration::from_millis(chance.below(700)));
        live.kill();
    }
    // A run that was killed before its cell was made leaves that to whoever looks next.
    eventually("what was begun is finished or removed", || {
        world.text(["cells"]);
        let cells = world.json(["cells", "--all", "--json"]);
        for cell in cells["cells"].as_array().unwrap() {
            world.hotcell(["kill", "--volumes", "--force", cell["id"].as_str().unwrap()]).run();
        }
        labelled(world).is_empty()
    });
    assert_eq!(world.text(["run", "echo well"]), "well\n");
}

/// The address of a socket that leads to the engine for as long as it is there.
fn way_to_engine(world: &World) -> (std::path::PathBuf, String) {
    let way = world.home().join("engine.sock");
    let (socket, _) = docker().unwrap();
    std::os::unix::fs::symlink(socket, &way).unwrap();
    let address = format!("unix://{}", way.display());
    (way, address)
}

fn without_its_engine_a_cell_goes_on(world: &World) {
    let (way, address) = way_to_engine(world);
    let hotcell = |args: &[&str]| {
        world.hotcell([]).args(args.iter().copied()).env("HOTCELL_DOCKER_HOST", &address).run()
    };
    hotcell(&["spawn", "--persistent", "going"]).succeeded();
    fs::remove_file(&way).unwrap();
    assert_eq!(hotcell(&["run", "--cell", "going", "echo on"]).succeeded().stdout(), "on\n");
    let refused = hotcell(&["run", "true"]);
    assert!(refused.stderr().contains("is the engine running"), "{refused:?}");
    assert_ne!(hotcell(&["kill", "--volumes", "--force", "going"]).code(), 0);
    let (socket, _) = docker().unwrap();
    std::os::unix::fs::symlink(socket, &way).unwrap();
    // Whoever looks next finishes what could not be done.
    eventually("nothing is left of it", || {
        hotcell(&["cells"]);
        hotcell(&["kill", "--volumes", "--force", "going"]);
        labelled(world).is_empty()
    });
}

fn a_cell_is_at_the_engine_it_was_made_at(world: &World) {
    world.text(["spawn", "--persistent", "here"]);
    let file = world.cells_dir().join(world.cell_id("here")).join("cell.json");
    let text = fs::read_to_string(&file).unwrap();
    let mut placed: serde_json::Value = serde_json::from_str(&text).unwrap();
    placed["engine"] = "ANOTHER".into();
    fs::write(&file, placed.to_string()).unwrap();
    let refused = world.hotcell(["kill", "--volumes", "--force", "here"]).run();
    assert!(refused.stderr().contains("another Docker engine"), "{refused:?}");
    // Its container ends with its supervisor, whatever else there is.
    let volumes = labelled(world).iter().filter(|it| it.starts_with("volume")).count();
    assert_eq!(volumes, 2, "what is elsewhere is not taken for gone");
    fs::write(&file, text).unwrap();
    eventually("it is removed where it is", || {
        world.hotcell(["kill", "--volumes", "--force", "here"]).run();
        world.text(["cells"]);
        labelled(world).is_empty()
    });
}

fn state_directories_share_an_engine_and_no_cells(world: &World) {
    let Some(other) = World::enter(world.kind()) else { return };
    world.text(["spawn", "mine"]);
    other.text(["spawn", "mine"]);
    world.text(["run", "--cell", "mine", "echo first > file"]);
    other.text(["run", "--cell", "mine", "echo second > file"]);
    other.text(["kill", "--volumes", "--force", "mine"]);
    eventually("the other's are gone", || labelled(&other).is_empty());
    assert_eq!(world.text(["run", "--cell", "mine", "cat file"]), "first\n");
}
