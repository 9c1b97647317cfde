# The zygote: imports once, then forks a child for every run to come.
#
# Children are made with CLONE_PARENT, so that they belong to the parent of the zygote. The
# system call goes past the handlers that libraries registered with the C library for fork, so
# no library may have threads here: those for arithmetic are told to have none.

import os
import sys

_CLONE_PARENT = 0x8000
_CLONE_CHILD_CLEARTID = 0x200000
_CLONE_CHILD_SETTID = 0x1000000
_SIGCHLD = 17
_SYS_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
_PR_SET_DUMPABLE = 4
_PR_GET_TID_ADDRESS = 40
_SINGLE_THREADED = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
)


def serve():
    import _socket
    import ctypes
    import gc

    control = _socket.socket(fileno=run.calls)
    system = ctypes.PyDLL(None, use_errno=True)
    system.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    wanted = read_order(5).get("imports") or []
    for name in _SINGLE_THREADED:
        os.environ[name] = "1"
    os.environ["MPLBACKEND"] = "Agg"
    for name in list(wanted) + ["linecache", "traceback"]:
        _import(str(name))
    for name in PARTS:
        part(name)
    rehearse()
    clone = _cloner(ctypes, system)
    receive = part("turns").receive
    gc.collect()
    gc.freeze()
    control.send(b"ready")
    while True:
        message, descriptors = receive(control)
        if not message and not descriptors:
            os._exit(0)
        if message == b"fork" and descriptors:
            _fork(clone, control, descriptors, _socket)
        for descriptor in descriptors:
            os.close(descriptor)


def _import(name):
    try:
        __import__(name)
    except BaseException as error:
        if not isinstance(error, ImportError):
            print("hotcell: %s is not imported ahead: %r" % (name, error), file=sys.stderr)


def _cloner(ctypes, system):
    """fork() whose child has the same parent as this process."""
    machine = os.uname().machine
    number = _SYS_CLONE.get(machine)
    if number is None:
        raise SystemExit("hotcell: no fork ahead of need on %s" % machine)
    flags, address = _CLONE_PARENT | _SIGCHLD, 0
    # The C library keeps the id of a thread; the kernel writes the child's into its place.
    place = ctypes.c_void_p()
    if system.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(place), 0, 0, 0) == 0 and place.value:
        if ctypes.c_int.from_address(place.value).value == os.getpid():
            flags |= _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
            address = place.value
    syscall = system.syscall
    syscall.restype = ctypes.c_long
    long = ctypes.c_long
    before, parent, child = (
        getattr(ctypes.pythonapi, name)
        for name in ("PyOS_BeforeFork", "PyOS_AfterFork_Parent", "PyOS_AfterFork_Child")
    )
    for function in (before, parent, child):
        function.restype = None
    # Both order: x86_64 takes the child's id fourth, the others fifth.
    last = (address, 0) if machine == "x86_64" else (0, address)
    arguments = [long(each) for each in (number, flags, 0, 0) + last]

    def clone():
        before()
        pid = syscall(*arguments)
        if pid == 0:
            child()
        else:
            parent()
        if pid < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return pid

    return clone


def _fork(clone, control, descriptors, _socket):
    try:
        if clone() != 0:
            return
    except OSError as error:
        os.write(descriptors[0], b"failed: fork: " + str(error).encode())
        return
    own = _socket.socket(fileno=descriptors[0])
    try:
        control.detach()
        order = _await_run(own, descriptors)
    except BaseException as error:
        try:
            own.send(("failed: %s: %s" % (type(error).__name__, error)).encode()[:4000])
        finally:
            os._exit(70)
    run_order(order)


def _await_run(own, descriptors):
    for descriptor in descriptors[1:]:
        os.write(descriptor, b"0")
    os.setsid()
    mine = own.fileno()
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != mine:
            try:
                os.close(int(name))
            except OSError:
                pass
    _reseed()
    rehearse()
    prepare_process()
    kept = dict(os.environ)
    os.environ.clear()
    turns = part("turns")
    turns.set_dumpable(0)
    own.send(b"ready")
    message, given = turns.receive(own)
    if not message:
        os._exit(0)
    order = turns.take_on(message, given)
    if order.get("session"):
        run.control = own
    else:
        own.close()
    turns.set_dumpable(1)
    if order.get("env") is None:
        order["env"] = kept
    return order


def _reseed():
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
