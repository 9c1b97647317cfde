//! The processes of an exec: the main one and all that came of it, held together by a control group
//! or by a subreaper.

use std::os::fd::OwnedFd;

use hotcell_jail::cgroup::ExecCgroup;
use hotcell_jail::proctree::{self, ProcessUse};
use hotcell_jail::signals;
use hotcell_model::Signal;
use rustix::process::{Pid, getsid};

/// The main process of an exec.
#[derive(Debug)]
pub(crate) enum Main {
    /// A child of the supervisor.
    Child(Pid),
    /// A child of a subreaper, which is a child of the supervisor.
    Reaped { main: Pid, reaper: Pid, report: OwnedFd, reaper_ended: bool },
}

/// The main process and its descendants.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) main: Main,
    pub(crate) cgroup: Option<ExecCgroup>,
    /// Processes that were stopped to hold it still.
    stopped: Vec<i32>,
}

impl Family {
    pub(crate) fn new(main: Main, cgroup: Option<ExecCgroup>) -> Self {
        Self { main, cgroup, stopped: Vec::new() }
    }

    /// The main process.
    pub(crate) fn leader(&self) -> Pid {
        match &self.main {
            Main::Child(main) | Main::Reaped { main, .. } => *main,
        }
    }

    /// The one that is a child of this process.
    pub(crate) fn child(&self) -> Pid {
        match &self.main {
            Main::Child(main) => *main,
            Main::Reaped { reaper, .. } => *reaper,
        }
    }

    /// Notes that the child of this process has ended.
    pub(crate) fn child_ended(&mut self) {
        if let Main::Reaped { reaper_ended, .. } = &mut self.main {
            *reaper_ended = true;
        }
    }

    /// Whether none is left; without a group that is known of the main process alone.
    pub(crate) fn is_gone(&self, main_ended: bool) -> bool {
        match (&self.main, &self.cgroup) {
            (Main::Child(_), Some(cgroup)) => cgroup.is_empty(),
            (Main::Child(_), None) => main_ended,
            (Main::Reaped { reaper_ended, .. }, _) => *reaper_ended,
        }
    }

    /// Whether none but the main process is left, or not even that.
    pub(crate) fn is_main_alone(&self) -> bool {
        let leader = self.leader().as_raw_nonzero().get();
        match (&self.main, &self.cgroup) {
            (Main::Child(main), Some(cgroup)) => cgroup.holds_only(*main),
            (Main::Child(_), None) => true,
            (Main::Reaped { reaper, reaper_ended, .. }, _) => {
                *reaper_ended
                    || proctree::descendants(*reaper)
                        .is_ok_and(|found| found.iter().all(|pid| *pid == leader))
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        match (&self.main, &self.cgroup) {
            (Main::Reaped { reaper, .. }, _) => {
                proctree::descendants(*reaper).map_or(0, |found| found.len())
            }
            (Main::Child(_), Some(cgroup)) => cgroup.count(),
            (Main::Child(_), None) => 0,
        }
    }

    /// Sends a signal to the group of the main process.
    pub(crate) fn signal(&self, signal: Signal) {
        // A group that is gone needs no signal.
        let _ = signals::send_to_group(self.leader(), signal.number());
    }

    /// Whether a process is in the session of the main process.
    pub(crate) fn is_in_session(&self, process: Pid) -> bool {
        match (getsid(Some(process)), getsid(Some(self.leader()))) {
            (Ok(one), Ok(other)) => one == other,
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    pub(crate) fn signal_all(&self, signal: Signal) {
        match (&self.main, &self.cgroup) {
            (Main::Reaped { reaper, .. }, _) => {
                for pid in proctree::descendants(*reaper).unwrap_or_default() {
                    let _ = Pid::from_raw(pid).map(|pid| signals::send(pid, signal.number()));
                }
            }
            (Main::Child(_), Some(cgroup)) => cgroup.signal(signal.number()),
            (Main::Child(_), None) => self.signal(signal),
        }
    }

    /// Holds all of them still; whether that could be done.
    pub(crate) fn freeze(&mut self) -> bool {
        match (&self.main, &self.cgroup) {
            (Main::Reaped { reaper, .. }, _) => match proctree::stop_descendants(*reaper) {
                Ok(stopped) => {
                    self.stopped = stopped;
                    true
                }
                Err(_) => false,
            },
            (Main::Child(_), Some(cgroup)) => cgroup.freeze(),
            (Main::Child(_), None) => false,
        }
    }

    /// Lets them go on.
    pub(crate) fn thaw(&mut self) {
        proctree::go_on(&std::mem::take(&mut self.stopped));
        if let (Main::Child(_), Some(cgroup)) = (&self.main, &self.cgroup) {
            cgroup.thaw();
        }
    }

    pub(crate) fn kill_all(&self) {
        match (&self.main, &self.cgroup) {
            (Main::Reaped { reaper, reaper_ended, .. }, _) => {
                if !reaper_ended {
                    // Unreadable /proc would be a broken cell; the next look tries again.
                    let _ = proctree::kill_descendants(*reaper);
                }
            }
            (Main::Child(_), Some(cgroup)) => cgroup.kill(),
            (Main::Child(_), None) => self.signal(Signal::KILL),
        }
    }

    /// Kills all but the main process.
    pub(crate) fn kill_others(&self) {
        match (&self.main, &self.cgroup) {
            (Main::Reaped { reaper, main, reaper_ended, .. }, _) => {
                if !reaper_ended {
                    let _ = proctree::kill_all_but(*reaper, *main);
                }
            }
            (Main::Child(main), Some(cgroup)) => cgroup.kill_all_but(*main),
            (Main::Child(_), None) => {}
        }
    }

    /// Stops the main process. Killing it still works.
    pub(crate) fn stop_main(&self) {
        // One that is gone needs no stopping.
        let _ = proctree::stop(self.leader());
    }

    /// Lets the main process go on, counted anew.
    pub(crate) fn resume_main(&mut self) {
        if let Some(cgroup) = &mut self.cgroup {
            cgroup.count_anew();
        }
        proctree::go_on(&[self.leader().as_raw_nonzero().get()]);
    }

    /// What the main process has used; nothing if it is gone.
    pub(crate) fn used(&self) -> ProcessUse {
        proctree::used_by(self.leader()).unwrap_or_default()
    }
}
