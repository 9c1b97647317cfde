//! The commands, one file for each verb.

mod apply;
mod approvals;
mod attach;
mod audit;
mod cancel;
mod cat;
mod cells;
mod checkpoint;
mod completions;
mod config;
mod cp;
mod diff;
mod discard;
mod doctor;
mod edit;
mod fork;
mod image;
mod info;
mod input;
mod kill;
mod logs;
mod ls;
mod net;
mod pack;
mod place;
mod policy;
mod port;
mod project;
mod ps;
mod run;
mod search;
mod secret;
mod serve;
mod setup;
mod setup_server;
mod spawn;
mod stats;
mod token;
mod unpack;
mod upkeep;
mod volume;
mod wait;

#[cfg(test)]
mod doctor_tests;
#[cfg(test)]
mod pack_tests;
#[cfg(test)]
mod place_tests;

use hotcell_engine::{AllowedSecrets, AllowedWorkspaces};
use hotcell_model::{ApprovalVerdict, EndCause, Exec, ExecEnd, LimitHit, Result};
use hotcell_server::Traces;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::Command;
use crate::audit_args::AuditAction;
use crate::config::{Config, LogFormat, Overrides};
use crate::environment::Environment;
use crate::errors::{Codes, Failure, OWN_FAILURE, exec_code};
use crate::session::Session;
use crate::show::note;

/// What a command is given besides its own arguments.
#[derive(Debug)]
pub(crate) struct Given<'a, C> {
    /// Reads the configuration.
    pub(crate) config: C,
    /// The global flags.
    pub(crate) overrides: &'a Overrides,
    pub(crate) environment: &'a Environment,
}

/// What the exit code of a command tells.
pub(crate) fn codes(command: &Command) -> Codes {
    match command {
        Command::Run(_) | Command::Attach(_) | Command::Wait(_) => Codes::OfTheExec,
        Command::Spawn(_)
        | Command::Cells(_)
        | Command::Info(_)
        | Command::Kill(_)
        | Command::Checkpoint(_)
        | Command::Fork(_)
        | Command::Net(_)
        | Command::Diff(_)
        | Command::Apply(_)
        | Command::Discard(_)
        | Command::Ps(_)
        | Command::Logs(_)
        | Command::Input(_)
        | Command::Cancel(_)
        | Command::Policy(_)
        | Command::Approvals(_)
        | Command::Approve(_)
        | Command::Ls(_)
        | Command::Cat(_)
        | Command::Cp(_)
        | Command::Edit(_)
        | Command::Search(_)
        | Command::Port(_)
        | Command::Image(_)
        | Command::Volume(_)
        | Command::Gc(_)
        | Command::Reconcile(_)
        | Command::Secret(_)
        | Command::Token(_)
        | Command::Audit(_)
        | Command::Stats(_)
        | Command::Serve(_)
        | Command::Setup(_)
        | Command::Doctor(_)
        | Command::Config(_)
        | Command::Completions(_) => Codes::Own,
    }
}

/// The exit code for a command line that is wrong, by the name of its command.
pub(crate) fn usage_code(command: &str) -> u8 {
    match command {
        "run" | "attach" | "wait" => OWN_FAILURE,
        _ => 2,
    }
}

/// Does what the command line asks for; the exit code when it was done.
///
/// # Errors
/// Whatever kept the command from being done.
pub(crate) async fn perform(
    command: Command,
    given: Given<'_, impl Fn() -> Result<Config>>,
) -> Result<u8, Failure> {
    let Given { config, overrides, environment } = given;
    // These two need no configuration, and a broken one is no reason against them.
    if let Command::Completions(args) = &command {
        return completions::completions(args);
    }
    if let Command::Setup(args) = &command {
        return setup::setup(args, overrides, environment, config());
    }
    let config = config()?;
    let traces = match (&command, &config.otlp) {
        (Command::Serve(_), Some(collector)) => Some(Traces::start(collector.clone())?),
        (_, _) => None,
    };
    start_log(&config, traces.as_ref());
    // Whoever is at the terminal is the operator.
    let session =
        || Session::open(&config, environment, AllowedWorkspaces::Any, AllowedSecrets::Any);
    match command {
        Command::Run(args) => Box::pin(run::run(&session()?, *args, environment)).await,
        Command::Spawn(args) => spawn::spawn(&session()?, *args).await,
        Command::Cells(args) => cells::cells(&session()?, args).await,
        Command::Info(args) => info::info(&session()?, args).await,
        Command::Kill(args) => kill::kill(&session()?, args).await,
        Command::Checkpoint(args) => checkpoint::checkpoint(&session()?, args.action).await,
        Command::Fork(args) => fork::fork(&session()?, args).await,
        Command::Net(args) => net::net(&session()?, args.action).await,
        Command::Diff(args) => diff::diff(&session()?, args).await,
        Command::Apply(args) => apply::apply(&session()?, args).await,
        Command::Discard(args) => discard::discard(&session()?, args).await,
        Command::Ps(args) => ps::ps(&session()?, args).await,
        Command::Logs(args) => logs::logs(&session()?, args).await,
        Command::Input(args) => input::input(&session()?, args).await,
        Command::Cancel(args) => cancel::cancel(&session()?, args).await,
        Command::Policy(args) => policy::policy(&session()?, args.action).await,
        Command::Approvals(args) => approvals::approvals(&session()?, args).await,
        Command::Approve(args) => approvals::approve(&session()?, args).await,
        Command::Attach(args) => Box::pin(attach::attach(&session()?, args)).await,
        Command::Wait(args) => wait::wait(&session()?, args).await,
        Command::Ls(args) => ls::ls(&session()?, args).await,
        Command::Cat(args) => cat::cat(&session()?, args).await,
        Command::Cp(args) => Box::pin(cp::cp(&session()?, args)).await,
        Command::Edit(args) => edit::edit(&session()?, args, environment).await,
        Command::Search(args) => search::search(&session()?, args).await,
        Command::Image(args) => image::image(&session()?, args.action).await,
        Command::Volume(args) => volume::volume(&session()?, args.action).await,
        Command::Gc(args) => upkeep::gc(&session()?, args).await,
        Command::Reconcile(args) => upkeep::reconcile(&session()?, args).await,
        Command::Secret(args) => secret::secret(&session()?, args.action).await,
        Command::Token(args) => token::token(&session()?, args.action).await,
        Command::Audit(args) => match args.action {
            // It looks at files that it must not change, and needs nothing else.
            Some(AuditAction::Verify(args)) => audit::verify(&config, args),
            Some(AuditAction::Summary(args)) => audit::summary(&session()?, args).await,
            Some(AuditAction::Export(args)) => audit::export(&session()?, args).await,
            None => audit::show(&session()?, args.show).await,
        },
        Command::Stats(args) => stats::stats(&session()?, args).await,
        Command::Port(args) => Box::pin(port::port(session()?, args)).await,
        Command::Serve(args) => {
            let served = Box::pin(serve::serve(args, &config, environment)).await;
            if let Some(traces) = traces {
                traces.end();
            }
            served
        }
        Command::Setup(args) => setup::setup(&args, overrides, environment, Ok(config)),
        Command::Doctor(args) => doctor::doctor(&config, session(), args).await,
        Command::Config(args) => config::config(&config, args),
        Command::Completions(args) => completions::completions(&args),
    }
}

fn start_log(config: &Config, traces: Option<&Traces>) {
    // The protocol library writes whole messages, with whatever secrets are in them, and warns of
    // every mistake of a client. Only who names it wants that.
    let quiet = if config.log.contains("rmcp") { "" } else { "rmcp=off," };
    let filter =
        tracing_subscriber::EnvFilter::builder().parse_lossy(format!("{quiet}{}", config.log));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // It would be told on the same stderr, and panic where that is a terminal that hung up.
        .log_internal_errors(false);
    let lines = match config.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    let log = tracing_subscriber::registry().with(lines.with_filter(filter));
    match traces {
        Some(traces) => log.with(traces.layer()).init(),
        None => log.init(),
    }
}

/// Says which limits a command came up against without being ended for it.
fn tell_limits(end: &ExecEnd) {
    for limit in &end.limits_hit {
        match limit {
            LimitHit::Memory if end.cause != EndCause::OomKilled => {
                note("a process of the cell was killed: its cell was out of memory");
            }
            LimitHit::Pids => note("the cell had as many processes and threads as it may"),
            LimitHit::Memory
            | LimitHit::Output
            | LimitHit::Disk
            | LimitHit::DiskFiles
            | LimitHit::Cpu => {}
        }
    }
}

fn told_denial(exec: &Exec) -> String {
    let Some(approval) = &exec.approval else {
        return "the command was not started: it was not approved".to_owned();
    };
    let what = match &approval.answer {
        Some(answer) if answer.verdict == ApprovalVerdict::Refused => {
            format!("{} refused it", answer.by)
        }
        Some(_) | None => "nobody approved it in time".to_owned(),
    };
    format!("the command was not started: {what} (rule {}: {})", approval.rule, approval.reason)
}

/// Says what a person should know about the end of an exec, and gives the exit code that shows it.
fn tell_end(exec: &Exec) -> u8 {
    let Some(end) = &exec.end else { return OWN_FAILURE };
    match end.cause {
        EndCause::Exited | EndCause::Signaled => {}
        EndCause::TimedOut if end.limit == Some(LimitHit::Cpu) => {
            note("the command was ended: it had used the CPU time that it may");
        }
        EndCause::TimedOut => note("the command was ended: its timeout was over"),
        EndCause::Cancelled if end.limit.is_none() => note("the command was cancelled"),
        EndCause::Cancelled => {}
        EndCause::OomKilled => note("the command was killed: its cell was out of memory"),
        EndCause::Denied => note(&told_denial(exec)),
        EndCause::Lost => note(&format!(
            "the command was lost: the supervisor of {} died, so how it ended is not known",
            exec.cell
        )),
    }
    match end.limit {
        Some(LimitHit::Disk) => note("the command was ended: its cell was over its disk limit"),
        Some(LimitHit::DiskFiles) => {
            note("the command was ended: its cell had made more files than it may");
        }
        Some(LimitHit::Memory | LimitHit::Pids | LimitHit::Output | LimitHit::Cpu) | None => {}
    }
    tell_limits(end);
    if end.killed_descendants > 0 {
        let (processes, were) = match end.killed_descendants {
            1 => ("1 process".to_owned(), "was"),
            many => (format!("{many} processes"), "were"),
        };
        note(&format!(
            "{processes} that the command left behind {were} ended; start servers with `hotcell run -d`"
        ));
    }
    exec_code(end)
}
