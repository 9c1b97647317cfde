//! A world to test in: a state directory of its own, used by one kind of user, left empty.

mod chance;
mod collector;
mod engine;
mod http;
mod invocation;
mod issuer;
mod kind;
mod leftovers;
mod machine;
mod mcp_client;
mod outside;
mod own_engine;
mod own_podman;
mod own_sshd;
mod polling;
mod processes;
mod registry;
mod terminal;
mod try_calls;
mod upstream;
mod wire;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) use chance::Chance;
pub(crate) use collector::{TraceCollector, said};
pub(crate) use engine::{ask_engine, labelled, tell_engine};
pub(crate) use http::{Connection, HttpAnswer, HttpServer, Sent, initialize};
pub(crate) use invocation::{AS_IN_A_CONTAINER, Finished, Invocation, Live};
pub(crate) use issuer::Issuer;
pub(crate) use kind::{Kind, User};
pub(crate) use machine::{
    Need, agents, clients, docker, hostile_program, is_root, program, python_packages, require,
    setting, tool_servers,
};
pub(crate) use mcp_client::{Era, McpClient, hello};
pub(crate) use outside::{Outside, pattern};
pub(crate) use own_engine::{OwnEngine, SMALL_IMAGE, small_root};
pub(crate) use own_podman::OwnPodman;
pub(crate) use own_sshd::OwnSshd;
pub(crate) use polling::{eventually, eventually_some};
pub(crate) use processes::{
    cpu_ticks, descendants, fd_count, handles, has_pending, inotify_count, is_alive, kill_9,
    marked, peak_kib, processes_of, resident_kib, send, session_of, state_of, unique,
};
pub(crate) use registry::{ACCOUNT, Registry};
pub(crate) use terminal::Terminal;
pub(crate) use try_calls::{Fates, fates, try_calls, try_ways};
pub(crate) use upstream::Upstream;
pub(crate) use wire::Wire;

/// Makes tests of behaviours, functions that are given a world: one for every kind of world.
macro_rules! in_every_world {
    ($($behaviour:ident,)+) => {
        in_worlds! { [root, without_cgroups, rootless, single_id] $($behaviour,)+ }
    };
}

/// The same, and also where no namespace can be made and in containers: for what does not depend on
/// either.
macro_rules! in_every_world_whatsoever {
    ($($behaviour:ident,)+) => {
        in_worlds! { [root, without_cgroups, rootless, single_id, without_namespaces, docker] $($behaviour,)+ }
    };
}

/// Makes tests of behaviours, functions that are given a world: one for each kind that is named.
macro_rules! in_worlds {
    ($kinds:tt $($behaviour:ident,)+) => {
        $(in_worlds! { @one $kinds $behaviour })+
    };
    (@one [$($kind:ident),+] $behaviour:ident) => {
        mod $behaviour {
            use $crate::world::{Kind, World};

            $(
                #[test]
                fn $kind() {
                    if let Some(world) = World::enter(Kind::named(stringify!($kind))) {
                        super::$behaviour(&world);
                    }
                }
            )+
        }
    };
}

/// A state directory and the user who works with it. When it is dropped, its cells are ended and
/// nothing of them may be left on the machine.
#[derive(Debug)]
pub(crate) struct World {
    kind: Kind,
    user: User,
    home: TempDir,
    /// What leads to the engine, where that is of another machine.
    wire: Option<Wire>,
}

impl World {
    /// A fresh world; `None`, said loudly, where this machine cannot have one of this kind.
    pub(crate) fn enter(kind: Kind) -> Option<Self> {
        Self::enter_below(kind, &std::env::temp_dir())
    }

    /// The same on a disk: what tests write is otherwise in memory, if it can be.
    pub(crate) fn enter_on_disk(kind: Kind) -> Option<Self> {
        Self::enter_below(kind, Path::new("/var/tmp"))
    }

    fn enter_below(kind: Kind, directory: &Path) -> Option<Self> {
        let user = kind.find_user()?;
        let home = tempfile::Builder::new().prefix("hotcell-e2e-").tempdir_in(directory).unwrap();
        let engine = docker().filter(|_| kind == Kind::Remote);
        let wire = engine.map(|(socket, _)| Wire::to(Path::new(&socket)));
        let world = Self { kind, user, home, wire };
        // Others may pass through, as they may through any home directory: what is private is the
        // state directory.
        fs::set_permissions(world.home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        world.own(world.home.path());
        world.share_bases();
        Some(world)
    }

    fn share_bases(&self) {
        if let Some(bases) = machine::shared_bases(&self.user) {
            let native = self.state_dir().join("native");
            fs::create_dir_all(&native).unwrap();
            symlink(bases, native.join("bases")).unwrap();
            for directory in [self.state_dir(), native] {
                fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
                self.own(&directory);
            }
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn user(&self) -> &User {
        &self.user
    }

    /// What leads to the engine of another machine.
    pub(crate) fn wire(&self) -> Option<&Wire> {
        self.wire.as_ref()
    }

    /// A directory that the user owns and that goes with the world.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// Gives a file or directory to the world's user.
    pub(crate) fn own(&self, path: &Path) {
        if is_root() {
            chown(path, Some(self.user.uid), Some(self.user.gid)).unwrap();
        }
    }

    /// The program with these arguments, in the world's surroundings.
    pub(crate) fn hotcell<const N: usize>(&self, args: [&str; N]) -> Invocation {
        Invocation::new(self, program().as_os_str(), args)
    }

    /// Another program in the same surroundings.
    pub(crate) fn other<const N: usize>(&self, name: &str, args: [&str; N]) -> Invocation {
        Invocation::new(self, name.as_ref(), args)
    }

    /// What the program prints when all goes well.
    pub(crate) fn text<const N: usize>(&self, args: [&str; N]) -> String {
        self.hotcell(args).run().succeeded().stdout()
    }

    /// What the program prints as JSON when all goes well.
    pub(crate) fn json<const N: usize>(&self, args: [&str; N]) -> Value {
        let text = self.text(args);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Starts a command in the background; its exec id.
    pub(crate) fn detach(&self, cell: &str, command: &str) -> String {
        self.text(["run", "-d", "--cell", cell, command]).trim().to_owned()
    }

    /// What is known of an exec, without waiting.
    pub(crate) fn exec(&self, id: &str) -> Value {
        let listed = self.json(["ps", "--all", "--limit", "100000", "--json"]);
        let execs = listed["execs"].as_array().unwrap();
        execs.iter().find(|exec| exec["id"] == id).unwrap_or(&Value::Null).clone()
    }

    /// What is known of an exec once it has ended.
    pub(crate) fn ended(&self, id: &str) -> Value {
        let finished = self.hotcell(["wait", "--json", id]).run();
        let text = finished.stdout();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {finished:?}"))
    }

    /// The id of a cell by its name.
    pub(crate) fn cell_id(&self, cell: &str) -> String {
        let info = self.json(["info", "--json", cell]);
        info["cell"]["id"].as_str().unwrap().to_owned()
    }

    /// The directory in which the native driver keeps a cell.
    pub(crate) fn native_dir(&self, cell: &str) -> PathBuf {
        self.state_dir().join("native/cells").join(self.cell_id(cell))
    }

    /// The directory in which its driver keeps a cell.
    pub(crate) fn cell_dir(&self, cell: &str) -> PathBuf {
        self.cells_dir().join(self.cell_id(cell))
    }

    /// The directory in which its driver keeps all cells.
    pub(crate) fn cells_dir(&self) -> PathBuf {
        let driver = if self.kind.has_containers() { "docker" } else { "native" };
        self.state_dir().join(driver).join("cells")
    }

    /// The control groups of a cell, by its id.
    pub(crate) fn cgroups_of(&self, id: &str) -> Vec<String> {
        leftovers::cgroups_of(id)
    }

    /// The supervisor of a cell that is awake.
    pub(crate) fn supervisor(&self, cell: &str) -> i32 {
        self.supervisor_of(&self.cell_id(cell))
    }

    /// The same, without asking for the cell: that would be a use of it.
    pub(crate) fn supervisor_of(&self, id: &str) -> i32 {
        if self.kind.has_containers() {
            return engine::first_process(id);
        }
        let path = self.cells_dir().join(id).join("supervisor.json");
        let process: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        i32::try_from(process["pid"].as_i64().unwrap()).unwrap()
    }

    /// The keeper of a cell that is awake.
    pub(crate) fn keeper(&self, cell: &str) -> i32 {
        let lock = self.cell_dir(cell).join("keeper.lock");
        eventually_some("a keeper holds its lock", || {
            processes_of(&lock).into_iter().find(|pid| *pid != self.supervisor(cell))
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The first failure is the one to read.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| leftovers::clear(self)));
            return;
        }
        let found = leftovers::clear(self);
        assert!(found.is_empty(), "the world is not left empty:\n{}", found.join("\n"));
    }
}
