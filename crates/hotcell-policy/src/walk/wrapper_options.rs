//! The options of commands that run others.

use super::options::Spec;

/// A command that runs the command after its options and so many operands.
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    pub(super) spec: Spec,
    pub(super) operands: usize,
}

const fn wrapper(
    names: &'static [&'static str],
    short: &'static str,
    long: &'static str,
    operands: usize,
) -> Wrapper {
    Wrapper { names, spec: Spec { short, long }, operands }
}

pub(super) const WRAPPERS: &[Wrapper] = &[
    wrapper(&["nohup", "setsid"], "cfwhV", "ctty fork wait help version", 0),
    wrapper(
        &["timeout"],
        "k:s:vpf",
        "kill-after= signal= verbose preserve-status foreground help version",
        1,
    ),
    wrapper(&["nice"], "n:0123456789", "adjustment= help version", 0),
    wrapper(
        &["ionice"],
        "c:n:p:P:u:tTh",
        "class= classdata= pid= pgid= uid= ignore help version",
        0,
    ),
    wrapper(
        &["chrt"],
        "aT:P:D:bdfiormpRvhV",
        "all-tasks sched-runtime= sched-period= sched-deadline= batch deadline fifo idle other rr max reset-on-fork pid verbose help version",
        1,
    ),
    wrapper(&["taskset"], "apchV", "all-tasks pid cpu-list help version", 1),
    wrapper(&["stdbuf"], "i:o:e:", "input= output= error= help version", 0),
    wrapper(
        &["time"],
        "f:o:apvqV",
        "format= output= append portability verbose quiet version help",
        0,
    ),
    wrapper(
        &["strace", "ltrace"],
        "fFqvcCdDhiIktTrwxyYzZ:Va:b:e:E:I:o:O:p:P:s:S:u:X:U:n:l:A:L:",
        "follow-forks output-separately quiet? trace= output= attach= user= env= string-limit= summary summary-only help version detach-on= daemonize? seccomp-bpf absolute-timestamps? relative-timestamps? syscall-times? stack-traces? decode-fds? trace-path= successful-only failed-only columns= no-abbrev instruction-pointer syscall-number",
        0,
    ),
    wrapper(
        &["unshare"],
        "miupUCTrcfhVR:w:S:G:l:",
        "mount? uts? ipc? net? pid? user? cgroup? time? fork kill-child? mount-proc? map-root-user map-current-user map-auto map-user= map-group= map-users= map-groups= propagation= setgroups= root= wd= setuid= setgid= monotonic= boottime= keep-caps load-interp= help version",
        0,
    ),
    wrapper(
        &["nsenter"],
        "at:m::u::i::n::p::C::U::T::S:G:r::w::W:FeZcNhV",
        "all target= mount? uts? ipc? net? pid? cgroup? user? time? setuid= setgid= root? wd? wdns= no-fork env follow-context preserve-credentials keep-caps help version",
        0,
    ),
    wrapper(&["chroot"], "", "groups= userspec= skip-chdir help version", 1),
    wrapper(
        &["setpriv"],
        "dhV",
        "dump nnp no-new-privs ambient-caps= inh-caps= bounding-set= ruid= euid= rgid= egid= reuid= regid= clear-groups keep-groups init-groups groups= securebits= pdeathsig= selinux-label= apparmor-profile= reset-env landlock-access= landlock-rule= seccomp-filter= ptracer= help version",
        0,
    ),
    wrapper(
        &["prlimit"],
        "p:o:c::d::e::f::i::l::m::n::q::r::s::t::u::v::x::y::hV",
        "pid= output= noheadings raw verbose core? data? nice? fsize? sigpending? memlock? rss? nofile? msgqueue? rtprio? stack? cpu? nproc? as? locks? rttime? help version",
        0,
    ),
    wrapper(&["gosu", "su-exec", "faketime"], "f:mp", "help version", 1),
    wrapper(&["envdir", "setuidgid"], "", "", 1),
    wrapper(&["pkexec"], "u:", "user= disable-internal-agent keep-cwd help version", 0),
    wrapper(
        &[
            "unbuffer",
            "eatmydata",
            "chronic",
            "catchsegv",
            "dbus-run-session",
            "torsocks",
            "torify",
            "tsocks",
        ],
        "pdiqev",
        "",
        0,
    ),
    wrapper(&["fakeroot"], "l:s:i:b:uhv", "lib= faked= unknown-is-real fd-base= help version", 0),
    wrapper(&["proxychains", "proxychains4"], "qf:", "", 0),
    wrapper(
        &["setarch", "linux32", "linux64", "i386", "x86_64"],
        "vRFZLXBIST3hV",
        "32bit fdpic-funcptrs short-inode addr-compat-layout addr-no-randomize whole-seconds sticky-timeouts read-implies-exec mmap-page-zero 3gb 4gb uname-2.6 verbose list show? help version",
        0,
    ),
    wrapper(
        &["numactl"],
        "i:w:p:m:N:C:lb",
        "interleave= membind= cpunodebind= physcpubind= localalloc preferred= balancing",
        0,
    ),
    wrapper(
        &["dumb-init", "tini"],
        "crvVp:eswghl",
        "single-child rewrite= verbose help version",
        0,
    ),
    wrapper(&["caffeinate"], "disut:w:m", "", 0),
    wrapper(&["sem"], "j:", "jobs= fg bg wait id=", 0),
    wrapper(
        &["systemd-run"],
        "GqrtPSdhH:M:p:u:E:",
        "user system scope unit= property= description= slice= uid= gid= nice= working-directory= same-dir setenv= pty pipe quiet wait collect no-block remain-after-exit send-sighup service-type= shell host= machine= on-active= on-calendar= help version",
        0,
    ),
];

pub(super) const SUDO: Spec = Spec {
    short: "ABbEeHhiKklNnPSsVva:C:c:D:g:p:R:r:T:t:U:u:",
    long: "askpass bell background preserve-env? edit set-home help login remove-timestamp reset-timestamp list no-update non-interactive preserve-groups stdin shell version validate auth-type= close-from= login-class= chdir= group= prompt= chroot= role= command-timeout= type= other-user= user= host=",
};
pub(super) const SU: Spec = Spec {
    short: "c:flmpPhVs:g:G:w:u:T",
    long: "command= session-command= fast login preserve-environment pty no-pty shell= group= supp-group= whitelist-environment= user= help version",
};
pub(super) const ENV: Spec = Spec {
    short: "i0vu:C:S:a:",
    long: "ignore-environment null unset= chdir= split-string= block-signal? default-signal? ignore-signal? list-signal-handling debug argv0= help version",
};
pub(super) const XARGS: Spec = Spec {
    short: "0d:a:E:e::i::I:l::L:n:prtxP:s:oJ:R:S:",
    long: "null delimiter= arg-file= eof? replace? max-lines? max-args= interactive no-run-if-empty verbose exit max-procs= process-slot-var= max-chars= open-tty show-limits help version",
};
pub(super) const FLOCK: Spec = Spec {
    short: "sxeunw:E:oFc:hV",
    long: "shared exclusive unlock nonblock nb timeout= wait= conflict-exit-code= close no-fork command= verbose fcntl help version",
};
pub(super) const SCRIPT: Spec = Spec {
    short: "aB:c:E:efI:m:O:o:qT:t::hV",
    long: "append log-io= command= echo= return flush force log-in= logging-format= log-out= output-limit= quiet log-timing= timing? help version",
};
pub(super) const WATCH: Spec = Spec {
    short: "bcCd::eghn:pq:rs:tvwx",
    long: "beep color no-color differences? errexit chgexit interval= precise equexit= no-rerun shotsdir= no-title no-wrap exec no-linewrap help version",
};
pub(super) const SSH: Spec =
    Spec { short: "46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:Q:R:S:W:w:", long: "" };
