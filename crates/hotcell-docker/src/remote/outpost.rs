//! `hotcell outpost`: the first process of the container beside a cell.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use hotcell_egress::EgressSettings;
use hotcell_jail::process::Readiness;
use hotcell_link::{BIRTH_SOCKET, ContainerOrder};
use hotcell_place::{connect_in, listen_in, read_json, remove_if_there, write_json};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::{BEGUN, FAILED, ORDER, OVER, OWN, PLACE, READY, TOOLS, WAITING};
use crate::birth::give_order;
use crate::carrier_id::share_records;
use crate::keeper::look_after;
use crate::paths::{CellPaths, LINK_SOCKET, Placed};

/// The word by which an outpost is told to wait for the first process of its cell.
pub(super) const BIRTH: &str = "birth";
/// Whoever starts a cell does so at once.
const BORN_WITHIN: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };
/// How long is waited before a cell is looked after again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long an outpost stays after its cell. Whoever wants the records later starts another one.
const STAYS_FOR: Duration = Duration::from_secs(600);

/// What an outpost is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OutpostOrder {
    pub(super) egress: EgressSettings,
    /// What the state of the tools that the cell sees is called.
    pub(super) tools: Option<String>,
}

/// The whole life of an outpost: with `birth` it begins a cell, without it goes on with one that runs,
/// and in any case it is there for whoever wants the records.
#[must_use]
pub fn outpost(args: &[OsString]) -> ExitCode {
    let place = PathBuf::from(PLACE);
    let mut begins = args.first().is_some_and(|word| word == BIRTH);
    let kept = loop {
        let kept = keep(&place, begins);
        // A cell that runs is looked after again, whatever went wrong.
        match connect_in(&place, LINK_SOCKET) {
            Ok(None) => break kept.and_then(|()| end(&place)),
            Ok(Some(_)) | Err(_) => {
                begins = false;
                thread::sleep(AGAIN_AFTER);
            }
        }
    };
    match kept {
        Ok(()) => {
            thread::sleep(STAYS_FOR);
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// Says that there is no supervisor, and that nothing will be written any more.
fn end(place: &Path) -> io::Result<()> {
    remove_if_there(&place.join(READY))?;
    fs::write(place.join(OVER), b"{}")
}

fn keep(place: &Path, begins: bool) -> io::Result<()> {
    let paths = CellPaths::at(place.to_owned());
    let missing = || io::Error::other("the outpost was told nothing of its cell");
    let placed: Placed = read_json(&paths.placed())?.ok_or_else(missing)?;
    let order: OutpostOrder = read_json(&place.join(ORDER))?.ok_or_else(missing)?;
    // What a former outpost told is not told by this one.
    let (stale, runs) = match begins {
        true => (&[OVER, WAITING, FAILED, READY][..], false),
        false => (&[OVER, WAITING, FAILED][..], connect_in(place, LINK_SOCKET)?.is_some()),
    };
    for file in stale {
        remove_if_there(&place.join(file))?;
    }
    if begins {
        remove_other_tools(place, order.tools.as_deref())?;
    } else if !runs {
        remove_if_there(&place.join(READY))?;
    }
    fs::write(Path::new(OWN).join(BEGUN), b"{}")?;
    if begins && let Err(error) = begin(&paths, &placed) {
        return write_json(&place.join(FAILED), &error.to_string());
    }
    match begins || runs {
        true => look_after(&paths, &placed, order.egress, || Ok(())),
        false => Ok(()),
    }
}

/// States of the tools that former lives of the cell saw.
fn remove_other_tools(place: &Path, shown: Option<&str>) -> io::Result<()> {
    for entry in fs::read_dir(place.join(TOOLS)).into_iter().flatten() {
        let entry = entry?;
        if shown.is_none_or(|shown| entry.file_name() != shown) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Tells the first process of the cell's container what to be, once it asks.
fn begin(paths: &CellPaths, placed: &Placed) -> io::Result<()> {
    // Before the container is started somebody has to listen.
    let birthplace = paths.birthplace();
    let waiting = listen_in(&birthplace, BIRTH_SOCKET)?;
    fs::set_permissions(birthplace.join(BIRTH_SOCKET), fs::Permissions::from_mode(0o666))?;
    fs::write(paths.root().join(WAITING), b"{}")?;
    let stream = accept(&waiting)?;
    drop(waiting);
    fs::remove_file(birthplace.join(BIRTH_SOCKET))?;
    if geteuid().is_root() {
        // All containers of an engine have the same ids.
        share_records(&placed.records, &placed.spec.id, placed.user)?;
    }
    let (uid, gid) = placed.user;
    let order = ContainerOrder { spec: placed.spec.clone(), uid, gid };
    let readiness: Readiness = give_order(stream, &order, placed.records.clone(), paths)?;
    let confinement = readiness.map_err(io::Error::other)?;
    write_json(&paths.root().join(READY), &confinement)
}

fn accept(waiting: &UnixListener) -> io::Result<UnixStream> {
    let mut fds = [PollFd::new(waiting, PollFlags::IN)];
    match poll(&mut fds, Some(&BORN_WITHIN))? {
        0 => Err(io::Error::other("the container of the cell did not start")),
        _ => Ok(waiting.accept()?.0),
    }
}
