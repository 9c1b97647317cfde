//! Images from a real registry, without an engine for containers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;

use crate::world::{ACCOUNT, Finished, Registry, World, eventually};

in_worlds! { [root, rootless, single_id]
    an_image_is_pulled_and_cells_begin_with_it,
}

in_worlds! { [root]
    credentials_are_those_of_docker,
    lists_for_machines_and_names_by_content_are_followed,
    content_that_is_not_what_it_is_called_is_refused,
    a_pull_that_is_cut_goes_on_where_it_was,
    a_pull_that_is_killed_goes_on_where_it_was,
    layers_that_are_there_are_not_pulled_again,
    what_a_registry_does_not_have_is_told,
    rules_about_images_hold,
    a_scanner_has_the_last_word,
}

/// A layer with a shell and a file, and much that cannot be packed.
fn layer(world: &World, name: &str, noise: usize) -> PathBuf {
    let root = world.home().join(name);
    fs::create_dir_all(root.join("bin")).unwrap();
    fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    for tool in ["sh", "cat", "echo"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    fs::write(root.join("name"), format!("{name}\n")).unwrap();
    let mut random = vec![0; noise];
    std::io::Read::read_exact(&mut fs::File::open("/dev/urandom").unwrap(), &mut random).unwrap();
    fs::write(root.join("noise"), random).unwrap();
    let packed = world.home().join(format!("{name}.tar"));
    let made = Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&packed).arg(".").status();
    assert!(made.unwrap().success());
    packed
}

fn gzipped(layer: &Path) -> PathBuf {
    assert!(Command::new("gzip").arg("-f").arg(layer).status().unwrap().success());
    layer.with_extension("tar.gz")
}

/// A directory with Docker's settings in it.
fn docker_config(world: &World, text: &str) -> PathBuf {
    let directory = world.home().join("docker-config");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("config.json"), text).unwrap();
    world.own(&directory);
    world.own(&directory.join("config.json"));
    directory
}

fn logged_in(world: &World, registry: &Registry) -> PathBuf {
    let name = registry.name("");
    let auth = base64::engine::general_purpose::STANDARD.encode(ACCOUNT);
    let text = format!(r#"{{"auths":{{"{}":{{"auth":"{auth}"}}}}}}"#, name.trim_end_matches('/'));
    docker_config(world, &text)
}

fn pull(world: &World, config: &Path, name: &str) -> Finished {
    world.hotcell(["image", "pull", name]).env("DOCKER_CONFIG", config).run()
}

/// Nothing that was half pulled is left.
fn pulls_left(world: &World) -> usize {
    let pulls = world.state_dir().join("native/images/pulls");
    fs::read_dir(pulls).into_iter().flatten().flatten().filter(|it| it.path().is_dir()).count()
}

fn an_image_is_pulled_and_cells_begin_with_it(world: &World) {
    let Some(registry) = Registry::start() else { return };
    registry.push("team/shell", "1", &[&gzipped(&layer(world, "one", 1000))], &[]);
    let config = logged_in(world, &registry);
    let name = registry.name("team/shell:1");
    assert_eq!(pull(world, &config, &name).succeeded().stdout().trim(), name);
    assert_eq!(
        world.text(["run", "--image", &name, "cat /name; echo $GREETING"]),
        "one\nof the image\n"
    );
    assert_eq!(pulls_left(world), 0);
}

fn credentials_are_those_of_docker(world: &World) {
    let Some(registry) = Registry::start() else { return };
    registry.push("a", "1", &[&layer(world, "one", 0)], &[]);
    let name = registry.name("a:1");
    let host = registry.name("").trim_end_matches('/').to_owned();
    let nobody = docker_config(world, "{}");
    let refused = pull(world, &nobody, &name).exited(5);
    assert!(refused.stderr().contains("docker login"), "{refused:?}");
    let wrong = format!(r#"{{"auths":{{"{host}":{{"auth":"dGVzdGVyOndyb25n"}}}}}}"#);
    pull(world, &docker_config(world, &wrong), &name).exited(5);

    // Kept by a program that is asked for them.
    let programs = world.home().join("programs");
    fs::create_dir(&programs).unwrap();
    let helper = programs.join("docker-credential-tests");
    let script = format!(
        "#!/bin/sh\nread -r host\ntest \"$host\" = {host} || {{ echo credentials not found; exit 1; }}\n\
         echo '{{\"Username\":\"tester\",\"Secret\":\"secret\"}}'\n"
    );
    fs::write(&helper, script).unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let config = docker_config(world, &format!(r#"{{"credHelpers":{{"{host}":"tests"}}}}"#));
    let pulled = world.hotcell(["image", "pull", &name]).env("DOCKER_CONFIG", &config);
    pulled.env("PATH", &path).run().succeeded();

    let broken = docker_config(world, "{");
    let refused = pull(world, &broken, &name);
    assert!(refused.stderr().contains("config.json"), "{refused:?}");
    assert_eq!(pulls_left(world), 0);
}

fn lists_for_machines_and_names_by_content_are_followed(world: &World) {
    let Some(registry) = Registry::start() else { return };
    let config = logged_in(world, &registry);
    let list = registry.push("a", "1", &[&gzipped(&layer(world, "one", 0))], &["--index"]);
    let by_tag = registry.name("a:1");
    pull(world, &config, &by_tag).succeeded();
    assert_eq!(world.text(["run", "--image", &by_tag, "cat /name"]), "one\n");
    // The tag moves on, the content stays.
    registry.push("a", "1", &[&layer(world, "two", 0)], &[]);
    let by_content = registry.name(&format!("a@{list}"));
    pull(world, &config, &by_content).succeeded();
    pull(world, &config, &by_tag).succeeded();
    assert_eq!(world.text(["run", "--image", &by_content, "cat /name"]), "one\n");
    assert_eq!(world.text(["run", "--image", &by_tag, "cat /name"]), "two\n");
}

fn content_that_is_not_what_it_is_called_is_refused(world: &World) {
    let Some(registry) = Registry::start() else { return };
    let config = logged_in(world, &registry);
    let packed = gzipped(&layer(world, "one", 100_000));
    registry.push("a", "1", &[&packed], &[]);
    let name = registry.name("a:1");
    let digest = Command::new("sha256sum").arg(&packed).output().unwrap().stdout;
    let stored = registry.stored(&String::from_utf8(digest).unwrap()[..64]);
    let real = fs::read(&stored).unwrap();
    let mut changed = real.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    fs::write(&stored, changed).unwrap();
    let refused = pull(world, &config, &name);
    assert!(refused.stderr().contains("what came as sha256:"), "{refused:?}");
    assert_eq!(world.json(["image", "list", "--json"])["images"], serde_json::json!([]));
    // As it should be, it is taken: nothing of the other is in the way.
    fs::write(&stored, real).unwrap();
    pull(world, &config, &name).succeeded();
    assert_eq!(pulls_left(world), 0);
}

const MUCH: usize = 6 << 20;

fn a_pull_that_is_cut_goes_on_where_it_was(world: &World) {
    let Some(registry) = Registry::start() else { return };
    let config = logged_in(world, &registry);
    registry.push("a", "1", &[&gzipped(&layer(world, "one", MUCH))], &[]);
    // More often than anything is tried of which nothing comes.
    registry.cut_after(700 << 10);
    pull(world, &config, &registry.name("a:1")).succeeded();
    let carried = registry.carried();
    assert!(carried < 2 * MUCH as u64, "{carried} bytes came: it began anew");
}

fn a_pull_that_is_killed_goes_on_where_it_was(world: &World) {
    let Some(registry) = Registry::start() else { return };
    let config = logged_in(world, &registry);
    registry.push("a", "1", &[&gzipped(&layer(world, "one", MUCH))], &[]);
    registry.cut_after(3 << 20);
    let name = registry.name("a:1");
    let live = world.hotcell(["image", "pull", &name]).env("DOCKER_CONFIG", &config).start();
    eventually("half of it came", || registry.carried() >= 3 << 20);
    live.kill();
    registry.cut_after(u64::MAX);
    pull(world, &config, &name).succeeded();
    let carried = registry.carried();
    assert!(carried < 2 * MUCH as u64, "{carried} bytes came: it began anew");
    assert_eq!(world.text(["run", "--image", &name, "cat /name"]), "one\n");
    assert_eq!(pulls_left(world), 0);
}

fn layers_that_are_there_are_not_pulled_again(world: &World) {
    let Some(registry) = Registry::start() else { return };
    let config = logged_in(world, &registry);
    let base = gzipped(&layer(world, "base", MUCH));
    registry.push("a", "1", &[&base], &[]);
    // Twice, as empty layers are in many images.
    registry.push(
        "b",
        "1",
        &[&base, &layer(world, "more", 0), &base, &layer(world, "last", 0)],
        &[],
    );
    pull(world, &config, &registry.name("a:1")).succeeded();
    let first = registry.carried();
    assert!(first > MUCH as u64);
    pull(world, &config, &registry.name("b:1")).succeeded();
    assert!(registry.carried() - first < MUCH as u64, "{} after {first}", registry.carried());
    assert_eq!(world.text(["run", "--image", &registry.name("b:1"), "cat /name"]), "last\n");
    // And with nothing of it here before.
    world.text(["image", "rm", &registry.name("a:1")]);
    world.text(["image", "rm", &registry.name("b:1")]);
    pull(world, &config, &registry.name("b:1")).succeeded();
    assert_eq!(world.text(["run", "--image", &registry.name("b:1"), "cat /name"]), "last\n");
}

fn what_a_registry_does_not_have_is_told(world: &World) {
    let Some(registry) = Registry::start() else { return };
    let config = logged_in(world, &registry);
    let absent = registry.name("no/such:1");
    let refused = pull(world, &config, &absent).exited(3);
    assert!(refused.stderr().contains(&absent), "{refused:?}");
    let nowhere = "localhost:1/a:1";
    let refused = pull(world, &config, nowhere);
    assert!(refused.stderr().contains("cannot reach the registry localhost:1"), "{refused:?}");
    assert_eq!(pulls_left(world), 0);
}

fn rules_about_images_hold(world: &World) {
    let Some(registry) = Registry::start() else { return };
    let config = logged_in(world, &registry);
    let digest = registry.push("good/a", "1", &[&layer(world, "one", 0)], &[]);
    registry.push("bad/a", "1", &[&layer(world, "two", 0)], &[]);
    let (good, bad) = (registry.name("good/a:1"), registry.name("bad/a:1"));
    let allow = registry.name("good/*");
    pull(world, &config, &bad).succeeded();
    let ruled = |args: &[&str]| {
        let invocation = world.hotcell([]).args(args.iter().copied());
        invocation.env("DOCKER_CONFIG", &config).env("HOTCELL_IMAGES_ALLOW", &allow).run()
    };
    ruled(&["image", "pull", &good]).succeeded();
    ruled(&["run", "--image", &good, "true"]).succeeded();
    for refused in [["image", "pull", &bad].as_slice(), &["run", "--image", &bad, "true"]] {
        let refused = ruled(refused);
        assert!(refused.stderr().contains("not among those that may be used"), "{refused:?}");
    }
    // The programs of this machine are no image.
    ruled(&["run", "true"]).succeeded();
    let pinned = |name: &str| {
        world
            .hotcell(["run", "--image", name, "true"])
            .env("HOTCELL_IMAGES_REQUIRE_DIGEST", "true")
            .run()
    };
    assert!(pinned(&good).stderr().contains("does not say its content"));
    pinned(&registry.name(&format!("good/a@{digest}"))).succeeded();
}

fn a_scanner_has_the_last_word(world: &World) {
    let Some(registry) = Registry::start() else { return };
    let config = logged_in(world, &registry);
    let digest = registry.push("a", "1", &[&layer(world, "one", 0)], &[]);
    let name = registry.name("a:1");
    let (scanner, noted) = (world.home().join("scan"), world.home().join("noted"));
    let verdict = |code: u8| {
        let script = format!(
            "#!/bin/sh\necho \"$1 $2\" > {}\ntest -e \"$3/index.json\" || exit 9\necho seen >&2\nexit {code}\n",
            noted.display()
        );
        fs::write(&scanner, script).unwrap();
        fs::set_permissions(&scanner, fs::Permissions::from_mode(0o755)).unwrap();
        let pulling = world.hotcell(["image", "pull", &name]).env("DOCKER_CONFIG", &config);
        pulling.env("HOTCELL_IMAGES_SCAN", &scanner).run()
    };
    let refused = verdict(1).exited(5);
    assert!(
        refused.stderr().contains("was refused by") && refused.stderr().contains("seen"),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(&noted).unwrap(), format!("{name} {digest}\n"));
    assert_eq!(world.json(["image", "list", "--json"])["images"], serde_json::json!([]));
    verdict(0).succeeded();
    assert_eq!(world.text(["run", "--image", &name, "cat /name"]), "one\n");
    fs::remove_file(&scanner).unwrap();
    let pulling = world.hotcell(["image", "pull", &name]).env("DOCKER_CONFIG", &config);
    let unheard = pulling.env("HOTCELL_IMAGES_SCAN", &scanner).run();
    assert!(unheard.stderr().contains("gave no verdict"), "{unheard:?}");
}
