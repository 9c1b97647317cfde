//! Several Docker engines, and those that are reached over TLS and SSH.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use base64::Engine as _;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::world::{
    Finished, Invocation, Live, OwnEngine, OwnPodman, OwnSshd, SMALL_IMAGE, World, eventually,
    small_root, unique,
};

in_worlds! { [docker]
    cells_are_spread_by_weight_and_labels_and_each_remembers_its_engine,
    an_engine_that_is_down_takes_nothing_with_it,
    what_is_said_of_engines_is_checked,
    an_engine_is_reached_over_tls_by_those_it_knows,
    an_engine_is_reached_over_ssh,
    podman_is_an_engine,
}

/// Hotcell with a configuration of its own.
struct Site<'a> {
    world: &'a World,
    config: String,
}

impl<'a> Site<'a> {
    fn new(world: &'a World, config: &str) -> Self {
        let file = world.home().join(format!("{}.toml", unique("engines")));
        fs::write(&file, config).unwrap();
        Self { world, config: file.display().to_string() }
    }

    fn call(&self, args: &[&str]) -> Invocation {
        let call = self.world.hotcell(["--config", &self.config]).args(args.iter().copied());
        call.env("HOTCELL_DOCKER_HOST", "").env("HOTCELL_DOCKER_IMAGE", format!("{SMALL_IMAGE}:1"))
    }

    fn hotcell(&self, args: &[&str]) -> Finished {
        self.call(args).run()
    }

    #[track_caller]
    fn text(&self, args: &[&str]) -> String {
        self.hotcell(args).succeeded().stdout()
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.text(args)).unwrap()
    }

    /// Where a cell is, by the name of its engine.
    fn engine_of(&self, cell: &str) -> String {
        self.json(&["info", "--json", cell])["engine"].as_str().unwrap().to_owned()
    }

    fn state_of(&self, cell: &str) -> Value {
        let cells = self.json(&["cells", "--all", "--json"]);
        let found = cells["cells"].as_array().unwrap().iter().find(|it| it["alias"] == cell);
        found.unwrap_or_else(|| panic!("{cell} is not listed: {cells}"))["state"].clone()
    }
}

/// Two engines that have the small image, east and west.
fn two_engines(world: &World) -> Option<(OwnEngine, OwnEngine)> {
    let (east, west) = (OwnEngine::start(None)?, OwnEngine::start(None)?);
    let root = small_root(world.home());
    for engine in [&east, &west] {
        engine.give_image(SMALL_IMAGE, &root);
    }
    Some((east, west))
}

fn config_of(east: &OwnEngine, west: &OwnEngine) -> String {
    format!(
        "[docker.engines.east]\nhost = \"{}\"\n\
         [docker.engines.west]\nhost = \"{}\"\nweight = 3\nlabels = [\"gpu=yes\", \"zone=b\"]\n",
        east.address(),
        west.address()
    )
}

fn cells_are_spread_by_weight_and_labels_and_each_remembers_its_engine(world: &World) {
    let Some((east, west)) = two_engines(world) else { return };
    let site = Site::new(world, &config_of(&east, &west));
    let cells = ["a", "b", "c", "d"];
    for cell in cells {
        site.text(&["run", "--cell", cell, &format!("echo {cell} > file")]);
    }
    let at = |name: &str| cells.iter().filter(|cell| site.engine_of(cell) == name).count();
    assert_eq!((at("east"), at("west")), (1, 3));
    assert_eq!((east.counts().1, west.counts().1), (2, 6), "two volumes a cell");
    for cell in cells {
        assert_eq!(site.text(&["run", "--cell", cell, "cat file"]), format!("{cell}\n"));
    }

    site.text(&["spawn", "--on", "engine=east", "named"]);
    assert_eq!(site.engine_of("named"), "east");
    for labels in [&["--on", "gpu=yes"][..], &["--on", "gpu=yes", "--on", "zone=b"]] {
        let spawn: Vec<&str> = ["spawn", "--persistent"].iter().chain(labels).copied().collect();
        let cell = site.text(&spawn).trim().to_owned();
        assert_eq!(site.engine_of(&cell), "west");
        site.text(&["kill", "--force", "--volumes", &cell]);
    }
    let refused = site.hotcell(&["spawn", "--on", "gpu=no", "nowhere"]).exited(3);
    let told = refused.stderr();
    assert!(told.contains("gpu=no") && told.contains("engine=west gpu=yes zone=b"), "{told}");
    let differs = site.hotcell(&["run", "--cell", "named", "--on", "engine=west", "true"]);
    assert!(differs.stderr().contains("--on engine=east"), "{differs:?}");
    let refused = site.hotcell(&["spawn", "--driver", "native", "--on", "gpu=yes"]).exited(9);
    assert!(refused.stderr().contains("no labels"), "{refused:?}");

    let doctor = site.text(&["doctor"]);
    for engine in ["east: ", "west: "] {
        assert!(doctor.contains(engine), "{doctor}");
    }
    assert!(doctor.contains("weight 3, gpu=yes, zone=b"), "{doctor}");

    // Whatever it is called later, it is the same engine.
    let renamed = config_of(&east, &west).replace("engines.east", "engines.orient");
    let renamed = Site::new(world, &renamed);
    assert_eq!(renamed.text(&["run", "--cell", "named", "echo here"]), "here\n");
    let without = format!("[docker.engines.west]\nhost = \"{}\"\n", west.address());
    let without = Site::new(world, &without);
    let refused = without.hotcell(&["kill", "--force", "--volumes", "named"]);
    assert!(refused.stderr().contains("at the Docker engine east"), "{refused:?}");
    assert_eq!(east.counts().1, 4, "nothing of it is removed");
    for cell in cells.iter().chain(&["named"]) {
        // What could be ended is; what was begun is finished by whoever can.
        site.hotcell(&["kill", "--force", "--volumes", cell]);
    }
    eventually("nothing is left", || {
        site.text(&["reconcile"]);
        (east.counts(), west.counts()) == ((0, 0), (0, 0))
    });
}

fn an_engine_that_is_down_takes_nothing_with_it(world: &World) {
    let Some((mut east, west)) = two_engines(world) else { return };
    let site = Site::new(world, &config_of(&east, &west));
    for (cell, engine) in [("rests", "east"), ("runs", "east"), ("other", "west")] {
        let spawn = ["spawn", "--persistent", "--on", &format!("engine={engine}"), cell];
        let sleep_after = if cell == "rests" { "1" } else { "600" };
        site.call(&spawn).env("HOTCELL_SLEEP_AFTER_S", sleep_after).run().succeeded();
    }
    let exec = site.text(&["run", "-d", "--cell", "rests", "echo kept > file; echo said; exit 7"]);
    let exec = exec.trim();
    assert_eq!(site.hotcell(&["wait", exec]).code(), 7);
    eventually("it sleeps", || site.state_of("rests") == "asleep");
    let live = site.text(&["run", "-d", "--cell", "runs", "sleep 30; exit 3"]).trim().to_owned();
    east.kill();

    assert_eq!(site.state_of("rests"), "unavailable");
    assert_eq!(site.json(&["info", "--json", "rests"])["cell"]["state"], "unavailable");
    let refused = site.hotcell(&["run", "--cell", "rests", "true"]).exited(125);
    let told = refused.stderr();
    assert!(told.contains("Docker engine east") && told.contains("is kept"), "{told}");
    // What was said is there, and what runs goes on.
    assert_eq!(site.text(&["logs", exec]), "said\n");
    assert_eq!(site.hotcell(&["wait", exec]).code(), 7);
    assert_eq!(site.state_of("runs"), "ready");
    assert_eq!(site.text(&["run", "--cell", "runs", "echo on"]), "on\n");
    let execs = &site.json(&["info", "--json", "runs"])["execs"];
    assert_eq!((&execs[0]["id"], &execs[0]["state"]), (&json!(live), &json!("running")));
    // The other engine gets what is new.
    assert_eq!(site.text(&["run", "--cell", "other", "echo on"]), "on\n");
    site.text(&["spawn", "new"]);
    assert_eq!(site.engine_of("new"), "west");
    let refused = site.hotcell(&["spawn", "--on", "engine=east", "stuck"]);
    assert_eq!(refused.code(), 10, "{refused:?}");
    let doctor = site.hotcell(&["doctor"]).stdout();
    assert!(doctor.contains("Docker engine east at unix://"), "{doctor}");

    let done = site.hotcell(&["reconcile", "--json"]).exited(10).stdout();
    let done: Value = serde_json::from_str(&done).unwrap();
    let errors = done["errors"].as_array().unwrap();
    assert!(errors.iter().any(|it| it.as_str().unwrap().contains("east at unix://")), "{done}");
    for counted in ["missing", "orphaned", "cleaned_up"] {
        assert_eq!(done[counted], json!(0), "{done}");
    }
    assert_eq!(site.state_of("rests"), "unavailable");

    east.restart();
    assert_eq!(site.text(&["run", "--cell", "rests", "cat file"]), "kept\n");
    assert_eq!(site.text(&["logs", exec]), "said\n");
    let done = site.json(&["reconcile", "--json"]);
    assert_eq!(done["errors"], json!([]), "{done}");
    for cell in ["rests", "runs", "other", "new"] {
        site.text(&["kill", "--force", "--volumes", cell]);
    }
    eventually("nothing is left", || {
        site.text(&["reconcile"]);
        (east.counts(), west.counts()) == ((0, 0), (0, 0))
    });
    drop((east, west));
    let refused = site.hotcell(&["run", "true"]);
    let told = refused.stderr();
    assert_eq!(refused.code(), 125, "{refused:?}");
    assert!(told.contains("east at unix://") && told.contains("west at unix://"), "{told}");
}

fn what_is_said_of_engines_is_checked(world: &World) {
    let said = |config: &str| Site::new(world, config).hotcell(&["config"]);
    for (config, told) in [
        ("[docker.engines.a]\nweight = 1\n", "docker.engines.a.host"),
        ("[docker.engines.a]\nhost = \"tcp://x\"\n", "it names no port"),
        ("[docker.engines.A]\nhost = \"unix:///a\"\n", "no name of a Docker engine"),
        ("[docker.engines.a]\nhost = \"unix:///a\"\nweight = -1\n", "0 to 1000"),
        ("[docker.engines.a]\nhost = \"unix:///a\"\nlabels = [\"engine=b\"]\n", "is its name"),
        ("[docker.engines.a]\nhost = \"unix:///a\"\ncolour = 1\n", "host, weight, labels"),
        ("[docker]\nhost = \"unix:///b\"\n[docker.engines.a]\nhost = \"unix:///a\"\n", "two ways"),
    ] {
        let refused = said(config);
        assert_eq!(refused.code(), 2, "{refused:?}");
        assert!(refused.stderr().contains(told), "{refused:?}");
    }
    let shown = said("[docker.engines.a]\nhost = \"unix:///a\"\nlabels = [\"x=1\"]\n").succeeded();
    assert!(shown.stdout().contains("docker.engines.a.labels"), "{shown:?}");
    // Whoever reaches an engine is root there.
    let heard = "[docker.engines.a]\nhost = \"tcp://192.0.2.1:2375\"\n";
    let refused = Site::new(world, heard).hotcell(&["spawn"]);
    assert!(refused.stderr().contains("without TLS"), "{refused:?}");
    assert!(refused.stderr().contains("insecure = true"), "{refused:?}");
}

/// Writes what an authority signed for an engine of this machine and its client into directories.
fn certificates(engine: &Path, client: &Path) {
    let pem = |what: &str, der: &[u8]| {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        let lines = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap());
        let lines = lines.collect::<Vec<_>>().join("\n");
        format!("-----BEGIN {what}-----\n{lines}\n-----END {what}-----\n")
    };
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "the authority of an engine");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = pem("CERTIFICATE", authority.self_signed(&key).unwrap().der());
    let issuer = Issuer::new(authority, key);
    for (directory, name) in [(engine, "127.0.0.1"), (client, "client")] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let signed = params.signed_by(&key, &issuer).unwrap();
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("ca.pem"), &root).unwrap();
        fs::write(directory.join("cert.pem"), pem("CERTIFICATE", signed.der())).unwrap();
        fs::write(directory.join("key.pem"), pem("PRIVATE KEY", &key.serialize_der())).unwrap();
    }
}

fn an_engine_is_reached_over_tls_by_those_it_knows(world: &World) {
    let place = world.home().join(unique("certificates"));
    let (of_engine, ours, others) =
        (place.join("engine"), place.join("client"), place.join("others"));
    certificates(&of_engine, &ours);
    certificates(&place.join("another"), &others);
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut told = vec![format!("--host=tcp://127.0.0.1:{port}"), "--tlsverify".to_owned()];
    for (flag, file) in [("tlscacert", "ca"), ("tlscert", "cert"), ("tlskey", "key")] {
        told.push(format!("--{flag}={}", of_engine.join(format!("{file}.pem")).display()));
    }
    let Some(engine) = OwnEngine::start_told(None, told) else { return };

    let address = format!("tcp://127.0.0.1:{port}");
    let by = |directory: &Path| {
        let config =
            format!("[docker]\nhost = \"{address}\"\ntls_dir = \"{}\"\n", directory.display());
        Site::new(world, &config).hotcell(&["doctor"]).stdout()
    };
    let found = by(&ours);
    assert!(found.contains(&format!(" at {address}")) && found.contains("storage"), "{found}");
    let config = format!("[docker]\nhost = \"{address}\"\ntls_dir = \"{}\"\n", ours.display());
    runs_cells(&Site::new(world, &config), &engine);
    let refused = by(&others);
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    let refused = by(&place.join("nowhere"));
    assert!(refused.contains("ca.pem"), "{refused}");
    let plain = Site::new(world, &format!("[docker]\nhost = \"{address}\"\n"));
    assert!(!plain.hotcell(&["doctor"]).stdout().contains("storage"));

    // As the clients of Docker have it.
    let unsaid = Site::new(world, "");
    let of_clients = |certificates: &Path| {
        let doctor = unsaid.call(&["doctor"]).env("DOCKER_HOST", &address);
        doctor.env("DOCKER_TLS_VERIFY", "1").env("DOCKER_CERT_PATH", certificates).run().stdout()
    };
    assert!(of_clients(&ours).contains("storage"));
    assert!(of_clients(&others).contains("invalid peer certificate"));
}

/// Runs what there is to a cell at an engine of another machine, and leaves nothing there.
fn runs_cells(site: &Site<'_>, engine: &OwnEngine) {
    engine.give_image(SMALL_IMAGE, &small_root(site.world.home()));
    let script = "i=0; while [ $i -lt 50 ]; do echo $i; i=$((i+1)); sleep 0.02; done; exit 7";
    let exec = site.text(&["run", "-d", "--cell", "far", script]);
    let exec = exec.trim();
    assert_eq!(site.hotcell(&["wait", exec]).code(), 7);
    let all: String = (0..50).map(|line| format!("{line}\n")).collect();
    assert_eq!(site.text(&["logs", exec]), all);
    assert_eq!(site.text(&["run", "--cell", "far", "echo well"]), "well\n");
    site.text(&["kill", "--force", "--volumes", "far"]);
    site.text(&["gc"]);
    eventually("nothing is left", || engine.counts() == (0, 0));
}

fn an_engine_is_reached_over_ssh(world: &World) {
    let Some(engine) = OwnEngine::start(None) else { return };
    let Some(sshd) = OwnSshd::start() else { return };
    let site = |socket: &Path| {
        let config = format!(
            "[docker.engines.far]\nhost = \"{}\"\nssh_config = \"{}\"\n",
            sshd.address(socket),
            sshd.client_config().display()
        );
        Site::new(world, &config)
    };
    // More than an sshd lets wait at its door.
    let there = site(&engine.socket());
    runs_cells(&there, &engine);
    let asking: Vec<Live> = (0..20).map(|_| there.call(&["doctor"]).start()).collect();
    for live in asking {
        let found = live.finish().stdout();
        assert!(found.contains("far: ") && found.contains("storage"), "{found}");
    }
    let missing = site(Path::new("/nowhere.sock")).hotcell(&["doctor"]).stdout();
    assert!(missing.contains("/nowhere.sock") && !missing.contains("storage"), "{missing}");
}

fn podman_is_an_engine(world: &World) {
    let Some(mut podman) = OwnPodman::start() else { return };
    podman.give_image(SMALL_IMAGE, &small_root(world.home()));
    let site = Site::new(world, &format!("[docker]\nhost = \"{}\"\n", podman.address()));
    let cell = site.json(&["spawn", "--persistent", "--json", "kept"]);
    let (id, isolation) = (cell["id"].as_str().unwrap(), &cell["isolation"]);
    let layers = isolation["layers"].as_array().unwrap();
    assert!(layers.iter().any(|layer| layer["name"] == "seccomp_filter"), "{isolation}");
    site.text(&["run", "--cell", "kept", "echo kept > file; echo gone > /tmp/file"]);
    let exec = site.text(&["run", "-d", "--cell", "kept", "sleep 2; echo said; exit 7"]);
    podman.stop();
    assert_eq!(site.hotcell(&["wait", exec.trim()]).code(), 7);
    let refused = site.hotcell(&["spawn", "new"]);
    assert_eq!(refused.code(), 10, "{refused:?}");
    podman.restart();
    assert_eq!(site.text(&["logs", exec.trim()]), "said\n");
    site.text(&["kill", "kept"]);
    site.text(&["volume", "restore", id]);
    assert_eq!(site.text(&["run", "--cell", "kept", "cat file; echo /tmp/*"]), "kept\n/tmp/*\n");
    site.text(&["kill", "--force", "--volumes", "kept"]);
    assert_eq!(podman.all(), "");
    assert_eq!(site.json(&["reconcile", "--json"])["errors"], json!([]));
}
