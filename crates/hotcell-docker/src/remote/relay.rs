//! `hotcell relay`: a process of this machine that shows a cell of another one here, and ends with it.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use futures_util::StreamExt;
use hotcell_keeper::{LockWait, Side, answer_order, belong_to_nobody, take_order};
use hotcell_link::CONTAINER_PROGRAM;
use hotcell_model::{Error, Result};
use hotcell_relay::{Near, NearPlace};
use serde::{Deserialize, Serialize};

use super::READY;
use super::begun::Begun;
use super::connect::{DOORS, TAKES, TELLS};
use crate::docker_host::DockerHost;
use crate::engine_address::EngineSettings;
use crate::keeper::KeepOutcome;
use crate::paths::CellPaths;
use crate::removal::remove_container;

/// What is read of a stream at once.
const PIECE_BYTES: usize = 128 << 10;
/// As much of what the far end says of its failure as anybody reads.
const MOST_WORDS: usize = 1024;

/// What a relay is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RelayOrder {
    /// The cell's directory on this side.
    pub(super) directory: PathBuf,
    /// The copy of its records.
    pub(super) records: PathBuf,
    pub(super) engine: EngineSettings,
    /// The container to go through.
    pub(super) outpost: String,
}

/// The whole life of a relay: its order comes on standard input, its outcome goes to standard output
/// once the copy is what the records are, and then it belongs to nobody.
#[must_use]
pub fn relay() -> ExitCode {
    let Ok(order) = take_order::<RelayOrder>() else { return ExitCode::FAILURE };
    let relayed = match belong_to_nobody() {
        Ok(Side::Keeper) => run(&order),
        Ok(Side::Starter) => return ExitCode::SUCCESS,
        Err(error) => Err(broken(&error)),
    };
    match relayed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Whoever has been answered hears no more of it.
            let _ = answer_order(&KeepOutcome::Failed(error));
            ExitCode::FAILURE
        }
    }
}

fn run(order: &RelayOrder) -> Result<()> {
    let paths = CellPaths::at(order.directory.clone());
    let locked = paths.kept().lock_keeper(LockWait::Try).map_err(|error| broken(&error))?;
    // Another process may have started one meanwhile; whoever ordered this one looks for it.
    let Some(_lock) = locked else {
        return answer_order(&KeepOutcome::Done).map_err(|error| broken(&error));
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| broken(&error))?;
    runtime.block_on(async {
        let host = DockerHost::connect(&order.engine).await?;
        Box::pin(carry(&host, order)).await?;
        // From here on nobody looks for them there.
        let records = File::open(&order.records).map_err(|error| broken(&error))?;
        rustix::fs::syncfs(&records).map_err(|errno| broken(&errno.into()))?;
        Begun::forget(&paths).map_err(|error| broken(&error))?;
        // All of it is here. One that stays is removed by the next start, or ends by itself.
        remove_container(&host, &order.outpost).await
    })
}

/// Shows the cell here until it is over.
async fn carry(host: &DockerHost, order: &RelayOrder) -> Result<()> {
    let place = NearPlace {
        directory: order.directory.clone(),
        records: order.records.clone(),
        doors: DOORS.map(str::to_owned).to_vec(),
        hears: TELLS.map(str::to_owned).to_vec(),
        ready: READY.to_owned(),
        tells: TAKES.to_owned(),
    };
    let near = Near::look(place).map_err(|error| broken(&error))?;
    let options = CreateExecOptions {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        cmd: Some(vec![CONTAINER_PROGRAM, "connect"]),
        ..CreateExecOptions::default()
    };
    let exec = host.docker.create_exec(&order.outpost, options).await;
    let exec = exec.map_err(|error| host.failed("reach the outpost of a cell", &error))?;
    let options = StartExecOptions { output_capacity: Some(PIECE_BYTES), ..Default::default() };
    let started = host.docker.start_exec(&exec.id, Some(options)).await;
    let started = started.map_err(|error| host.failed("reach the outpost of a cell", &error))?;
    let StartExecResults::Attached { output, input } = started else {
        return Err(Error::internal("an exec that was to be attached is not"));
    };
    let mut words = Vec::new();
    let bytes = output.filter_map(|part| {
        let part = match part {
            Ok(LogOutput::StdOut { message }) => Some(Ok(message)),
            Ok(LogOutput::StdErr { message }) => {
                let room = MOST_WORDS.saturating_sub(words.len());
                words.extend(message.iter().take(room));
                None
            }
            Ok(LogOutput::StdIn { .. } | LogOutput::Console { .. }) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        };
        std::future::ready(part)
    });
    let caught = || answer_order(&KeepOutcome::Done);
    let relayed = hotcell_relay::relay(near, bytes, input, caught).await;
    relayed.map_err(|error| {
        let words = String::from_utf8_lossy(&words).into_owned();
        let why = if words.is_empty() { error.to_string() } else { words };
        Error::unavailable(format!("the way to the cell at {} broke: {why}", host.address))
    })
}

fn broken(error: &io::Error) -> Error {
    Error::unavailable(format!("the relay of the cell failed: {error}"))
}
