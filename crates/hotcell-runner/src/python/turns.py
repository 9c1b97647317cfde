# A process that runs one order after another: how it ends a run and lives on, and how it begins
# the next one. Between them it holds nothing open of the run that is over.

import os
import sys
from array import array

_PR_SET_DUMPABLE = 4
_SOL_SOCKET, _SCM_RIGHTS, _CLOEXEC = 1, 1, 0x40000000
_MOST_DESCRIPTORS = 64
_GIVEN = 7
_prctl = None


def adopt(descriptor):
    """The socket on which a process that was started for a session hears of its next runs."""
    import _socket

    os.set_inheritable(descriptor, False)
    run.control = _socket.socket(fileno=descriptor)


def receive(control):
    """A message and the descriptors that came with it."""
    room = _MOST_DESCRIPTORS * 4 + 64
    message, ancillary, _, _ = control.recvmsg(4096, room, _CLOEXEC)
    descriptors = array("i")
    for level, kind, data in ancillary:
        if level == _SOL_SOCKET and kind == _SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % 4])
    return message, list(descriptors)


def take_on(message, given):
    """Makes what came with a run this process's own; returns the order."""
    if message != b"run" or len(given) != _GIVEN:
        raise ValueError("expected run with %d descriptors, got %r" % (_GIVEN, message[:40]))
    for target in (0, 1, 2):
        os.dup2(given[target], target)
        os.close(given[target])
    os.fchdir(given[3])
    os.close(given[3])
    run.calls, run.report = given[4], given[5]
    return read_order(given[6])


def set_dumpable(is_dumpable):
    """Whether others of the cell may look into this process; not while it waits."""
    global _prctl
    if _prctl is None:
        try:
            import ctypes

            _prctl = ctypes.PyDLL(None).prctl
        except Exception:
            return
    _prctl(_PR_SET_DUMPABLE, is_dumpable, 0, 0, 0)


def park(code):
    """Ends the run but not the process; returns the order of the next run."""
    for step in (_keep_artifacts, _write_out, write_report, _hang_up, _close_streams):
        try:
            step()
        except BaseException:
            pass
    try:
        set_dumpable(0)
        run.control.send(("done %s %d" % (run.id, code)).encode())
        message, given = receive(run.control)
        if not message:
            os._exit(0)
        order = take_on(message, given)
        set_dumpable(1)
    except BaseException:
        # Nobody hears it any more, or it is no longer what it has to be.
        os._exit(code)
    run.client = run.result = run.result_type = run.result_file = run.error = None
    run.artifacts = []
    _open_streams()
    # What servers offer may be another by now; a name that was imported is still bound.
    for name in [name for name in sys.modules if name == "tools" or name.startswith("tools.")]:
        del sys.modules[name]
    return order


def _keep_artifacts():
    if "matplotlib.pyplot" in sys.modules:
        artifacts = part("artifacts")
        artifacts.save_open_figures()
        # As a notebook does; or the next run would save them once more.
        sys.modules["matplotlib.pyplot"].close("all")
        artifacts.forget_figures()
    if os.path.isdir(run.results):
        part("artifacts").collect_files()


def _write_out():
    import io

    kinds = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
    left_open = [value for value in list(run.main.__dict__.values()) if type(value) in kinds]
    for stream in left_open + [sys.stdout, sys.stderr] + list(run.streams):
        try:
            stream.flush()
        except BaseException:
            pass


def _hang_up():
    if run.client is not None:
        run.client.retire()
    else:
        os.close(run.calls)


def _close_streams():
    nothing = os.open(os.devnull, os.O_RDWR)
    for target in (0, 1, 2):
        os.dup2(nothing, target)
    if nothing > 2:
        os.close(nothing)


def _open_streams():
    """What is printed goes to the run at hand, whatever an earlier one did with its streams. Those
    who keep one, as handlers of logs do, keep a good one."""
    sys.stdin = sys.__stdin__ = open(
        0, encoding="utf-8", errors="surrogateescape", closefd=False
    )
    streams = []
    for descriptor, stream in zip((1, 2), run.streams):
        if stream is None or stream.closed:
            errors = "surrogateescape" if descriptor == 1 else "backslashreplace"
            stream = open(descriptor, "w", 1, encoding="utf-8", errors=errors, closefd=False)
        streams.append(stream)
    run.streams = tuple(streams)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = run.streams
