//! The command line: every command and flag with its help.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use hotcell_model::{
    Alias, CellRef, CheckpointBefore, CheckpointId, ExecId, NetRule, Network, RequestedLimits,
    SecretGrant, Signal, Stream, Workspace,
};
use hotcell_server::Toolsets;

use crate::audit_args::{Audit, Stats};
use crate::config_keys::{KEYS, Key};
use crate::dialects::DialectName;
use crate::file_args::{Cat, Cp, Edit, Ls, Search};
use crate::global_args::Global;
use crate::image_args::Image;
use crate::net_args::Net;
use crate::policy_args::{Approvals, Approve, Policy};
use crate::secret_args::Secret;
use crate::setup_args::Setup;
use crate::token_args::Token;
use crate::upkeep_args::{Gc, Reconcile, Volume};
use crate::values::{self, ListenAt};

/// Safe computers for AI agents: cells, and commands that run in them.
///
/// A cell is a sandbox with its own file system, limits and network. An exec is one command run in
/// a cell, with all its descendants. No server is needed: every `hotcell` works on the same state
/// directory.
#[derive(Debug, Parser)]
#[command(
    name = "hotcell",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = EXIT_CODES
)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the exit codes mean, as the help and the reference page say it.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    it was done
  1    output could not be written; of `doctor`: no cell can be made here;
       of `search`: nothing was found; of `audit verify`: it is damaged
  2    the request is wrong: a flag, an argument, a value
  3    there is no such cell, exec or file
  4    it contradicts the present state, such as a name that is taken
  5    it is not allowed
  6    a limit is used up
  7    it took longer than allowed
  8    it was cancelled
  9    this machine cannot do it
  10   it cannot be done now; later it may
  70   a fault of hotcell
  141  whoever read our output went away

Of `run`, `attach` and `wait`, which report how a command ended:
  N    the command exited with N; 126 is a command that cannot be executed,
       127 one that is not found, or its directory
  124  its timeout was over
  125  hotcell itself failed, or lost the command; stderr says why
  130  it was cancelled
  137  it was killed because its cell was out of memory
  128+N  signal N ended it";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<Run>),
    Spawn(Box<Spawn>),
    Cells(Cells),
    Info(Info),
    Kill(Kill),
    Checkpoint(Checkpoint),
    Fork(Fork),
    Net(Net),
    Diff(Diff),
    Apply(Apply),
    Discard(Discard),
    Ps(Ps),
    Logs(Logs),
    Input(Input),
    Cancel(Cancel),
    Policy(Policy),
    Approvals(Approvals),
    Approve(Approve),
    Attach(Attach),
    Wait(Wait),
    Ls(Ls),
    Cat(Cat),
    Cp(Cp),
    Edit(Edit),
    Search(Search),
    Port(Port),
    Image(Image),
    Volume(Volume),
    Secret(Secret),
    Token(Token),
    Audit(Box<Audit>),
    Stats(Stats),
    Serve(Serve),
    Setup(Setup),
    Gc(Gc),
    Reconcile(Reconcile),
    Doctor(Doctor),
    Config(ShowConfig),
    Completions(Completions),
}

/// Run a command in a cell and show its output as it comes.
///
/// Without --cell the command gets a new cell, which is removed when it ends. With --cell NAME it
/// runs in the cell of that name, which is made if there is none and stays with its files. With
/// --workspace DIR it runs in a cell that stays and belongs to that directory: see `hotcell diff`.
///
/// One word is text for the cell's shell; several words are a program and its arguments.
///
/// Input is passed on only with -i or -t, also when it comes from a pipe. Ctrl-C interrupts the
/// command; the second Ctrl-C kills it. SIGTERM is passed on. When the terminal hangs up, the
/// command ends with its cell, or runs on in a cell that has a name.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hotcell run 'uname -a; id; ls /workspace'
  hotcell run --cell work -- make -j4
  hotcell run -t bash
  hotcell run --workspace . 'make test'
  tar c . | hotcell run --cell work -i 'tar x'
  hotcell run -d --cell work 'python3 -m http.server'")]
pub(crate) struct Run {
    /// Run in the cell of this name or id; a name that does not exist yet gets a new cell.
    #[arg(long, value_name = "NAME", value_parser = values::word::<CellRef>)]
    pub(crate) cell: Option<CellRef>,
    /// Set a variable for the command. May be given several times.
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = values::variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Start in this directory of the cell; relative to /workspace.
    #[arg(long, value_name = "DIR", default_value = "/workspace")]
    pub(crate) cwd: String,
    /// End the command after this time (30s, 5m, 2h); never unless given.
    #[arg(long, value_name = "TIME", value_parser = values::timeout)]
    pub(crate) timeout: Option<Duration>,
    /// Pass our standard input to the command, and its end.
    #[arg(long, short)]
    pub(crate) interactive: bool,
    /// Give the command a terminal, and our terminal to it.
    #[arg(long, short)]
    pub(crate) tty: bool,
    /// Print the exec id and return at once; the command goes on without us.
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// Run as uid 0 of the cell, where the machine allows it.
    #[arg(long)]
    pub(crate) as_root: bool,
    /// Within 24 hours a second run with this key is the first one.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Print one JSON object a line: messages, then the exec.
    #[arg(long, conflicts_with = "tty")]
    pub(crate) json: bool,
    /// What to run: one word of shell text, or a program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
    #[command(flatten)]
    pub(crate) shape: Shape,
}

/// What a new cell is made of. An existing cell keeps what it was made with.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The new cell")]
pub(crate) struct Shape {
    /// The root file system it starts from; unless given `host`, the programs of this machine.
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Where it is placed, native or docker; unless given as the configuration says.
    #[arg(long, value_name = "DRIVER")]
    pub(crate) driver: Option<String>,
    /// Place it at a Docker engine with this label, such as gpu=yes, or engine=NAME. May be given
    /// several times.
    #[arg(long, value_name = "LABEL=VALUE", value_parser = values::label)]
    pub(crate) on: Vec<(String, String)>,
    /// What it can reach over the network; unless given none.
    #[arg(long, value_name = "RULE", conflicts_with = "allow")]
    pub(crate) net: Option<NoNet>,
    /// Let it reach this name: name, name:port, *.suffix or *. May be given several times.
    ///
    /// A name without a port stands for the ports 22, 80 and 443; /raw ends inspection.
    #[arg(long, value_name = "NAME", value_parser = values::word::<NetRule>)]
    pub(crate) allow: Vec<NetRule>,
    /// The most memory it may use, such as 512M.
    #[arg(long, value_name = "SIZE", value_parser = values::mebibytes)]
    pub(crate) memory: Option<u64>,
    /// The most CPUs it may use, such as 1.5.
    #[arg(long, value_name = "N", value_parser = values::cpus)]
    pub(crate) cpus: Option<f64>,
    /// The most processes and threads it may have.
    #[arg(long, value_name = "N")]
    pub(crate) pids: Option<u32>,
    /// The most it may write, such as 1G.
    #[arg(long, value_name = "SIZE", value_parser = values::mebibytes)]
    pub(crate) disk: Option<u64>,
    /// The most files and directories it may make.
    #[arg(long, value_name = "N")]
    pub(crate) disk_files: Option<u64>,
    /// Work on this directory of the host, as /workspace.
    ///
    /// MODE is cow (default): the real files stay as they are until `hotcell apply`; rw: they are
    /// written to; ro: nothing can be written.
    #[arg(long, value_name = "DIR[:MODE]", value_parser = values::workspace)]
    pub(crate) workspace: Option<Workspace>,
    /// Grant it this secret, as a variable of its name in capitals or as VARIABLE. May be given
    /// several times.
    ///
    /// `NAME:header=HEADER: TEMPLATE@HOST` keeps the value out of the cell: requests to these hosts
    /// get it as a header on their way. `{}` in the template stands for the value, `{basic:USER}` for
    /// user and password of basic authentication: 'token:header=Authorization: Bearer {}@api.github.com'.
    #[arg(long, value_name = "NAME[=VARIABLE]", value_parser = values::word::<SecretGrant>)]
    pub(crate) secret: Vec<SecretGrant>,
}

impl Shape {
    /// The limits that were asked for.
    pub(crate) fn limits(&self) -> RequestedLimits {
        RequestedLimits {
            memory_mb: self.memory,
            cpus: self.cpus,
            pids: self.pids,
            disk_mb: self.disk,
            disk_files: self.disk_files,
        }
    }

    /// The image that was asked for, or the usual one.
    pub(crate) fn image(&self) -> String {
        self.image.clone().unwrap_or_else(|| "host".to_owned())
    }

    /// The network that was asked for, or the usual one.
    pub(crate) fn network(&self) -> Network {
        match self.net {
            Some(NoNet::None) => Network::None,
            None => self.allow.clone().into(),
        }
    }
}

/// What a cell can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NoNet {
    /// Its own loopback and nothing else.
    None,
}

/// Make a cell and print its id.
///
/// It lasts for its TTL (7 days unless given), or with --persistent until it is killed. While
/// nothing runs in a persistent cell it sleeps, and wakes with its files at the next use.
#[derive(Debug, Args)]
pub(crate) struct Spawn {
    /// A name for the cell.
    #[arg(value_parser = values::word::<Alias>)]
    pub(crate) name: Option<Alias>,
    /// Keep it until it is killed.
    #[arg(long)]
    pub(crate) persistent: bool,
    /// End it after this time (30m, 2h, 3d).
    #[arg(long, value_name = "TIME", value_parser = values::whole_seconds)]
    pub(crate) ttl: Option<u64>,
    /// End it when nothing has run in it for this time.
    #[arg(long, value_name = "TIME", value_parser = values::whole_seconds)]
    pub(crate) idle_ttl: Option<u64>,
    /// Set a variable for every command in it. May be given several times.
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = values::variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Make a checkpoint before each command in it that removes or overwrites something.
    #[arg(long, value_name = "WHICH", value_parser = values::checkpoint_before)]
    pub(crate) checkpoint_before: Option<CheckpointBefore>,
    /// Within 24 hours a second spawn with this key answers with the first one's cell.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Print the cell as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) shape: Shape,
}

/// List cells.
#[derive(Debug, Args)]
pub(crate) struct Cells {
    /// Show stopped ones too, whose supervisor died or whose machine was restarted.
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Show those of every tenant.
    #[arg(long)]
    pub(crate) all_tenants: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show a cell: its limits, what it uses, its isolation, what runs in it.
#[derive(Debug, Args)]
pub(crate) struct Info {
    /// Its name or id.
    #[arg(value_parser = values::word::<CellRef>)]
    pub(crate) cell: CellRef,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// End cells.
///
/// The files of a cell that has a name are kept for a while, see `hotcell volume`; those of others go
/// with them.
#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// Their names or ids.
    #[arg(required = true, value_name = "CELL", value_parser = values::word::<CellRef>)]
    pub(crate) cells: Vec<CellRef>,
    /// End what runs in them, too.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Remove the files of persistent cells, too.
    #[arg(long)]
    pub(crate) volumes: bool,
    /// Print one JSON object for each cell.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Keep states of a cell's files, and go back to them.
#[derive(Debug, Args)]
pub(crate) struct Checkpoint {
    #[command(subcommand)]
    pub(crate) action: CheckpointAction,
}

/// What to do with checkpoints.
#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointAction {
    /// Keep everything that the cell has written, /tmp left out.
    Create(CheckpointOf),
    /// List a cell's checkpoints, the oldest first.
    List(CheckpointOf),
    /// Tell which files were added, changed and removed since a checkpoint.
    Diff(DiffCheckpoint),
    /// Bring the cell's files back to a checkpoint.
    Restore(RestoreCheckpoint),
    /// Forget a checkpoint; files and forks stay as they are.
    Delete(OneCheckpoint),
}

/// A cell whose checkpoints are meant.
#[derive(Debug, Args)]
pub(crate) struct CheckpointOf {
    /// Its name or id.
    #[arg(value_parser = values::word::<CellRef>)]
    pub(crate) cell: CellRef,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One checkpoint of a cell.
#[derive(Debug, Args)]
pub(crate) struct OneCheckpoint {
    /// The cell's name or id.
    #[arg(value_parser = values::word::<CellRef>)]
    pub(crate) cell: CellRef,
    /// The checkpoint's id.
    #[arg(value_parser = values::word::<CheckpointId>)]
    pub(crate) checkpoint: CheckpointId,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A checkpoint to compare with.
#[derive(Debug, Args)]
pub(crate) struct DiffCheckpoint {
    #[command(flatten)]
    pub(crate) one: OneCheckpoint,
    /// Show the changes themselves, as a patch in the format of git.
    #[arg(long, short = 'p')]
    pub(crate) content: bool,
}

/// A checkpoint to go back to.
#[derive(Debug, Args)]
pub(crate) struct RestoreCheckpoint {
    #[command(flatten)]
    pub(crate) one: OneCheckpoint,
    /// End what runs in the cell.
    #[arg(long, short)]
    pub(crate) force: bool,
}

/// Make cells that begin with the files of another.
#[derive(Debug, Args)]
pub(crate) struct Fork {
    /// The cell's name or id.
    #[arg(value_parser = values::word::<CellRef>)]
    pub(crate) cell: CellRef,
    /// Begin with this checkpoint instead of the files as they are.
    #[arg(long, value_name = "ID", value_parser = values::word::<CheckpointId>)]
    pub(crate) checkpoint: Option<CheckpointId>,
    /// A name for the new cell; of several, the beginning of their names.
    #[arg(long, value_parser = values::word::<Alias>)]
    pub(crate) name: Option<Alias>,
    /// How many cells.
    #[arg(long, short = 'n', default_value_t = 1)]
    pub(crate) count: u32,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A cell that works on a directory of the host, and what of that directory is meant.
#[derive(Debug, Args)]
pub(crate) struct ProjectOf {
    /// The cell's name or id; unless given the cell of this directory, or of one it is in.
    #[arg(long, value_name = "NAME", value_parser = values::word::<CellRef>)]
    pub(crate) cell: Option<CellRef>,
    /// Only these files and directories; everything unless given.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what a cell changed in the project that it works on, as `git diff` would.
///
/// What would make the host run something (hooks of git, tasks of editors, new programs) and files
/// that changed on the host meanwhile are told apart, on stderr.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    pub(crate) of: ProjectOf,
    /// Only tell which files, not what changed in them.
    #[arg(long)]
    pub(crate) name_status: bool,
}

/// Bring what a cell changed to the real files of the project.
///
/// All of it is applied, or nothing. Real files that changed since the cell began with them are a
/// conflict. What would make the host run something is left out unless its path is given.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hotcell run --workspace . 'make fmt'
  hotcell diff
  hotcell apply
  hotcell apply src docs/guide.md .git/hooks/pre-commit
  hotcell discard")]
pub(crate) struct Apply {
    #[command(flatten)]
    pub(crate) of: ProjectOf,
    /// Replace real files that changed meanwhile, too.
    #[arg(long, short)]
    pub(crate) force: bool,
}

/// Forget what a cell changed in the project that it works on.
#[derive(Debug, Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    pub(crate) of: ProjectOf,
}

/// List execs, the newest first.
#[derive(Debug, Args)]
pub(crate) struct Ps {
    /// Only those of this cell.
    #[arg(long, value_name = "CELL", value_parser = values::word::<CellRef>)]
    pub(crate) cell: Option<CellRef>,
    /// Show those too that have ended.
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Show those of every tenant.
    #[arg(long)]
    pub(crate) all_tenants: bool,
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// Go on where a page ended: the `next_cursor` of its JSON.
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which stream of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The terminal.
    Pty,
}

impl From<StreamName> for Stream {
    fn from(name: StreamName) -> Self {
        match name {
            StreamName::Stdout => Self::Stdout,
            StreamName::Stderr => Self::Stderr,
            StreamName::Pty => Self::Pty,
        }
    }
}

/// Print the output of an exec, while it runs and after.
///
/// Its standard output goes to ours and its standard error to ours. The output of an exec is kept
/// for 24 hours after its cell is gone.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Its id.
    #[arg(value_parser = values::word::<ExecId>)]
    pub(crate) exec: ExecId,
    /// Go on printing until the exec ends.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only what came after this seq.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,
    /// Only the last lines, this many.
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) tail: Option<u64>,
    /// Only lines that this regular expression matches.
    #[arg(long, value_name = "RE")]
    pub(crate) grep: Option<String>,
    /// Only this stream.
    #[arg(long, value_name = "STREAM")]
    pub(crate) stream: Option<StreamName>,
    /// Print the screen of its terminal instead of its output.
    #[arg(long, conflicts_with_all = ["follow", "after", "tail", "grep", "stream"])]
    pub(crate) screen: bool,
    /// Print one JSON object a line: seq, stream, data, ts.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Send input or a signal to an exec that was started with -i or -t.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Its id.
    #[arg(value_parser = values::word::<ExecId>)]
    pub(crate) exec: ExecId,
    /// What to send, followed by a newline; `-` sends our standard input as it is.
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: Option<String>,
    /// Send TEXT without a newline.
    #[arg(long, short = 'n')]
    pub(crate) no_newline: bool,
    /// Send this key after TEXT: down, enter, ctrl-c, esc, f1, alt-x; repeatable.
    #[arg(long = "key", short, value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// Close its standard input after that.
    #[arg(long)]
    pub(crate) eof: bool,
    /// Send this signal to its process group.
    #[arg(long, short, value_name = "SIGNAL", value_parser = values::word::<Signal>)]
    pub(crate) signal: Option<Signal>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// End an exec and everything it started.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Its id.
    #[arg(value_parser = values::word::<ExecId>)]
    pub(crate) exec: ExecId,
    /// The signal that asks it to end.
    #[arg(long, short, value_name = "SIGNAL", default_value = "TERM", value_parser = values::word::<Signal>)]
    pub(crate) signal: Signal,
    /// How long it may take until it is killed.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::duration)]
    pub(crate) grace: Duration,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Join a running exec: see its output from now on and type into it.
///
/// With a terminal the last screenful is shown first; leave with ctrl-p ctrl-q. Without one, leave
/// with Ctrl-C. The exec runs on either way. When the exec ends, the exit code is its own.
#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// Its id.
    #[arg(value_parser = values::word::<ExecId>)]
    pub(crate) exec: ExecId,
}

/// Reach a service that listens in a cell, from this machine.
///
/// Listens at an address of this machine, prints it, and passes every connection on to the port in
/// the cell, until it is interrupted. A cell that sleeps wakes with the first connection, and stays
/// awake while one is open.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  hotcell run -d --cell work 'python3 -m http.server 8000'
  hotcell port work 8000
  hotcell port work 5432 --listen 15432")]
pub(crate) struct Port {
    /// The cell's name or id.
    #[arg(value_parser = values::word::<CellRef>)]
    pub(crate) cell: CellRef,
    /// The port in the cell.
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Listen here: a port of this machine's loopback, or an address with its port.
    ///
    /// Other machines reach what is not a loopback address, and nothing asks them who they are.
    #[arg(long, value_name = "[ADDR:]PORT", default_value = "127.0.0.1:0", value_parser = values::address)]
    pub(crate) listen: SocketAddr,
    /// Print where it listens as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Wait until an exec has ended, and exit as it did.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Its id.
    #[arg(value_parser = values::word::<ExecId>)]
    pub(crate) exec: ExecId,
    /// Print the exec as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Give an agent cells over the Model Context Protocol.
///
/// Speaks on standard input and output, as a client expects that starts it, or with --http at an
/// address. What the agent started goes on when the client leaves or the server ends, and the next
/// server finds it.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Serve over HTTP at this address: 127.0.0.1:8000, localhost:8000, 8000 or unix:PATH.
    ///
    /// An address that other machines reach needs proof of who calls: `hotcell token create`.
    #[arg(long, value_name = "ADDR", value_parser = values::listen_at)]
    pub(crate) http: Option<ListenAt>,
    /// The cell that is meant when a call names none, instead of one for this directory, or over
    /// HTTP for each caller.
    #[arg(long, value_name = "NAME", value_parser = values::word::<Alias>)]
    pub(crate) cell: Option<Alias>,
    /// Work on this directory of the host: it is the workspace of the cell that is meant when a call
    /// names none, and an agent may ask for it and what is in it. May be given several times; the
    /// first is for that cell.
    ///
    /// MODE is cow (default): the real files stay as they are until `hotcell apply`; rw: they are
    /// written to; ro: nothing can be written.
    #[arg(long, value_name = "DIR[:MODE]", value_parser = values::workspace)]
    pub(crate) workspace: Vec<Workspace>,
    /// Work on the project in this directory (default: the one the server is started in): it is the
    /// workspace of the cell that is meant when a call names none, copy-on-write.
    ///
    /// Like --workspace DIR, but a directory that cannot be a workspace, such as a home directory,
    /// is no error: that cell is then empty, and clients are told why.
    #[arg(
        long,
        value_name = "DIR",
        num_args = 0..=1,
        default_missing_value = ".",
        conflicts_with = "workspace"
    )]
    pub(crate) project: Option<PathBuf>,
    /// Let cells of agents reach this name over the network: name, name:port, *.suffix or *. May be
    /// given several times. The cell that is meant when a call names none reaches all of them;
    /// another one those that it is spawned with.
    #[arg(long, value_name = "NAME", value_parser = values::word::<NetRule>)]
    pub(crate) allow: Vec<NetRule>,
    /// Serve the tools of a server that Hotcell takes the place of, with its variables.
    #[arg(
        long,
        value_name = "NAME",
        value_enum,
        default_value = "hotcell",
        hide_default_value = true,
        conflicts_with = "tools"
    )]
    pub(crate) dialect: DialectName,
    /// Show only these tools: cell, exec, fs, code, admin.
    #[arg(long, value_name = "SETS", value_parser = values::word::<Toolsets>)]
    pub(crate) tools: Option<Toolsets>,
    /// Show what the conformance suite asks for beside the real tools.
    #[cfg(feature = "conformance")]
    #[arg(long, hide = true)]
    pub(crate) conformance_fixtures: bool,
}

/// Show what this machine can enforce, and what to do about what is missing.
///
/// The exit code is 0 when cells can be made here and 1 when not.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the effective configuration, and where each value came from.
#[derive(Debug, Args)]
pub(crate) struct ShowConfig {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print shell completions, to be sourced.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// For which shell.
    pub(crate) shell: Shell,
}

/// The command line with the parts of its help that are made from tables.
pub(crate) fn command_line() -> clap::Command {
    CommandLine::command().mut_subcommand("config", |config| config.after_long_help(keys_help()))
}

fn keys_help() -> String {
    let mut help = String::from(
        "Later ones win: defaults, then the first of --config FILE, \
         $XDG_CONFIG_HOME/hotcell/hotcell.toml (~/.config without it) and \
         /etc/hotcell/hotcell.toml that there is, then variables, then flags.\n\nKeys:\n",
    );
    for key in KEYS {
        let Key { name, variable, default, about, .. } = key;
        help.push_str(&format!("  {name} (default {default}, variable {variable})\n"));
        help.push_str(&format!("          {about}\n"));
    }
    help
}
