//! Who uses the program: root or an ordinary user, with what the machine gives each.

use std::fs;

use super::machine::{
    Need, docker, is_root, landlock_stands_alone, own_user, require, setting, user_namespaces_work,
};

/// A kind of world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Root, with whatever control groups there are.
    Root,
    /// Root, told to use no control groups.
    RootWithoutCgroups,
    /// Root with what a container engine leaves it: no power to mount, no control groups.
    ContainerRoot,
    /// An ordinary user with a range of subordinate ids.
    Rootless,
    /// An ordinary user with nothing but the own id.
    SingleId,
    /// An ordinary user in a container, where no namespace can be made, content with level process.
    WithoutNamespaces,
    /// Root, with cells in containers of a Docker engine.
    Docker,
    /// The same, with an engine that is reached over a network, as one of another machine is.
    Remote,
}

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Kind {
    /// The kind that a test is named after.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "root" => Self::Root,
            "without_cgroups" => Self::RootWithoutCgroups,
            "container_root" => Self::ContainerRoot,
            "rootless" => Self::Rootless,
            "single_id" => Self::SingleId,
            "without_namespaces" => Self::WithoutNamespaces,
            "docker" => Self::Docker,
            "remote" => Self::Remote,
            other => panic!("there is no kind of world named {other}"),
        }
    }

    /// Whether cells of this kind may have control groups at all.
    pub(crate) fn uses_cgroups(self) -> bool {
        match self {
            Self::Root | Self::Rootless | Self::SingleId | Self::Docker | Self::Remote => true,
            Self::RootWithoutCgroups | Self::ContainerRoot | Self::WithoutNamespaces => false,
        }
    }

    /// Whether a command in a cell may be its root.
    pub(crate) fn has_root_inside(self) -> bool {
        match self {
            Self::Root | Self::RootWithoutCgroups | Self::Rootless => true,
            Self::ContainerRoot | Self::SingleId | Self::WithoutNamespaces => false,
            Self::Docker | Self::Remote => false,
        }
    }

    /// Whether cells of this kind are containers of an engine.
    pub(crate) fn has_containers(self) -> bool {
        match self {
            Self::Docker | Self::Remote => true,
            Self::Root | Self::RootWithoutCgroups | Self::ContainerRoot => false,
            Self::Rootless | Self::SingleId | Self::WithoutNamespaces => false,
        }
    }

    /// The user to test as, if this machine has one and lets it make namespaces.
    pub(crate) fn find_user(self) -> Option<User> {
        let (need, found) = match self {
            Self::Root | Self::RootWithoutCgroups | Self::ContainerRoot => (Need::Native, root()),
            Self::Docker | Self::Remote => {
                let engine = docker().ok_or("HOTCELL_TEST_DOCKER names no Docker engine");
                (Need::Docker, engine.map_err(str::to_owned).and_then(|_| root()))
            }
            Self::Rootless => (Need::Rootless, ordinary("HOTCELL_TEST_USER", Subordinates::Some)),
            Self::SingleId => {
                (Need::Rootless, ordinary("HOTCELL_TEST_USER_SINGLE", Subordinates::None))
            }
            Self::WithoutNamespaces => {
                let user = ordinary("HOTCELL_TEST_USER_SINGLE", Subordinates::None);
                (Need::Rootless, user.and_then(where_landlock_stands_alone))
            }
        };
        let found = found.and_then(|user| match user_namespaces_work(&user) {
            true => Ok(user),
            false => Err(format!("{} may not make namespaces here", user.name)),
        });
        require(need, found)
    }
}

fn where_landlock_stands_alone(user: User) -> Result<User, String> {
    match landlock_stands_alone() {
        true => Ok(user),
        false => Err("Landlock of this kernel does not keep signals".to_owned()),
    }
}

/// Whether a user has a range of subordinate ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subordinates {
    Some,
    None,
}

fn root() -> Result<User, String> {
    match is_root() {
        true => Ok(User { name: "root".to_owned(), uid: 0, gid: 0 }),
        false => Err("the tests do not run as root".to_owned()),
    }
}

/// The user that a variable names; whoever runs the tests where that is not root.
fn ordinary(variable: &str, wanted: Subordinates) -> Result<User, String> {
    let user = match (setting(variable), is_root()) {
        (Some(name), true) => find(|user| user.name == name)
            .ok_or_else(|| format!("{variable} names {name}, which is no user of this machine")),
        (None, true) => Err(format!("{variable} is not set (see CONTRIBUTING.md)")),
        (_, false) => own_user(),
    }?;
    match (subordinates(&user), wanted) {
        (Subordinates::Some, Subordinates::Some) | (Subordinates::None, Subordinates::None) => {
            Ok(user)
        }
        (Subordinates::None, Subordinates::Some) => {
            Err(format!("{} has no subordinate ids in /etc/subuid", user.name))
        }
        (Subordinates::Some, Subordinates::None) => {
            Err(format!("{} has subordinate ids in /etc/subuid", user.name))
        }
    }
}

fn subordinates(user: &User) -> Subordinates {
    let listed = fs::read_to_string("/etc/subuid").unwrap_or_default();
    let owns = |line: &str| {
        let owner = line.split(':').next().unwrap_or_default();
        owner == user.name || owner == user.uid.to_string()
    };
    match listed.lines().any(owns) {
        true => Subordinates::Some,
        false => Subordinates::None,
    }
}

/// The first user of this machine of whom that is true.
pub(super) fn find(wanted: impl Fn(&User) -> bool) -> Option<User> {
    let listed = fs::read_to_string("/etc/passwd").unwrap_or_default();
    listed.lines().filter_map(parse).find(|user| wanted(user))
}

fn parse(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = fields.next()?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(User { name, uid, gid })
}
