# The runner: reads an order, runs its code as the module __main__, writes a report.
#
# It is compiled at every cold start, so it holds what every run needs; the rest lies in PARTS as
# text and is compiled when it is asked for. Works on CPython 3.8 and later, standard library only.

import os
import sys

# Bound here, so that code may replace what it likes.
_exit, _getpid, _write = os._exit, os.getpid, os.write
_INNER = "<hotcell"
_CODE = "<code>"
_LAST = "_hotcell_last_value_"
_TOP_LEVEL_AWAIT = 0x2000
_ONLY_AST = 0x400
_IS_COROUTINE = 0x80
_MOST_SOURCES = 200
_LOADED = {}


class Part:
    """Names of one part of the runner; `run` is this file's own."""


def part(name):
    """One of the parts, compiled when it is first asked for."""
    loaded = _LOADED.get(name)
    if loaded is None:
        loaded = Part()
        names = loaded.__dict__
        names.update(__name__="hotcell." + name, __builtins__=__builtins__, part=part, run=RUN)
        names.update(to_json=to_json, from_json=from_json)
        if name == "turns":
            names.update(read_order=read_order, write_report=write_report)
        if name == "zygote":
            names.update(PARTS=PARTS, run_order=run_order, read_order=read_order)
            names.update(prepare_process=prepare_process, rehearse=rehearse)
        exec(compile(PARTS[name], "%s/%s>" % (_INNER, name), "exec", 0, True), names)
        _LOADED[name] = loaded
    return loaded


class _ScannerSettings:
    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def _not_plain(value):
    raise TypeError("%s is not JSON" % type(value).__name__)


try:
    # The module json brings re and enum, which is most of what a cold start would cost.
    import _json

    _scan = _json.make_scanner(_ScannerSettings)
    _encode = _json.make_encoder(
        None, _not_plain, _json.encode_basestring, None, ":", ",", False, False, False
    )
    _encode([], 0)

    def from_json(text):
        return _scan(text.strip(), 0)[0]

    def to_json(value):
        """JSON as text; what is not plain JSON raises."""
        return "".join(_encode(value, 0))

except Exception:
    import json

    from_json = json.loads

    def to_json(value):
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
        )


class Run:
    """What is known of the run in this process."""

    pid = 0
    id = ""
    calls = 3
    report = 4
    control = None
    results = ""
    source = ""
    file = _CODE
    report_bytes = 262144
    client = None
    result = None
    result_type = None
    result_file = None
    error = None
    main = None

    def __init__(self):
        self.artifacts = []
        # Of a process that runs one order after another: how many, and the code by its name.
        self.turn = 0
        self.sources = {}
        self.first_on_path = []
        self.streams = (sys.stdout, sys.stderr)

    def results_file(self, name):
        """A path in the directory of results, which is made when it is first needed."""
        os.makedirs(self.results, exist_ok=True)
        return os.path.join(self.results, name)


RUN = Run()


class _AfterImport:
    """A loader that does its work and then calls a function with the module."""

    def __init__(self, loader, after):
        self._loader, self._after = loader, after

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._after(module)


def _show_source_lines(linecache):
    for file, source in RUN.sources.items():
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)


def _save_shown_figures(pyplot):
    part("artifacts").save_shown_figures(pyplot)


class Finder:
    """Finds `tools` and what is below it, and looks on as two other modules are imported."""

    after = {"linecache": _show_source_lines, "matplotlib.pyplot": _save_shown_figures}

    def find_spec(self, name, path=None, target=None):
        if name == "tools" or name.startswith("tools."):
            return part("tools").find_spec(name)
        after = self.after.get(name)
        if after is None:
            return None
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None and spec.loader is not None:
                    spec.loader = _AfterImport(spec.loader, after)
                    return spec
        return None

    def invalidate_caches(self):
        pass


def _display(*values):
    """Shows values: pictures and pages become artifacts, everything else is printed."""
    artifacts = part("artifacts")
    for value in values:
        if not artifacts.keep(value):
            print(part("values").text_of(value))


_display.__name__ = _display.__qualname__ = "display"


def read_order(descriptor):
    """The JSON in a file that may have been written through the same descriptor."""
    text = b""
    while True:
        more = os.pread(descriptor, 1 << 20, len(text))
        if not more:
            break
        text += more
    os.close(descriptor)
    return from_json(text.decode())


def prepare_process():
    """Makes the process ready for any order."""
    RUN.pid = _getpid()
    for stream in (sys.stdout, sys.stderr):
        # What was printed is kept when the run is ended from outside.
        if stream is not None:
            stream.reconfigure(line_buffering=True)
    sys.argv = [_CODE]
    sys.meta_path.insert(0, Finder())
    if "matplotlib.pyplot" in sys.modules:
        _save_shown_figures(sys.modules["matplotlib.pyplot"])
    import builtins

    builtins.display = _display
    main = type(sys)("__main__")
    main.__builtins__ = builtins
    RUN.main = sys.modules["__main__"] = main


def prepare_run(order):
    """Makes the process what the order says, short of running its code."""
    RUN.id = order.get("run") or ""
    RUN.source = order["code"]
    RUN.results = order["results"]
    RUN.turn += 1
    RUN.file = _CODE if RUN.turn == 1 else "%s %d>" % (_CODE[:-1], RUN.turn)
    RUN.sources[RUN.file] = RUN.source
    if len(RUN.sources) > _MOST_SOURCES:
        del RUN.sources[next(iter(RUN.sources))]
    limits = order.get("limits") or {}
    RUN.report_bytes = int(limits.get("report_bytes") or RUN.report_bytes)
    cpu, memory = limits.get("cpu_seconds"), limits.get("memory_bytes")
    if cpu or memory:
        import resource

        if cpu:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
        if memory:
            try:
                resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
            except ValueError:
                pass  # An earlier run of the session was bounded by less, which still holds.
    environment = order.get("env")
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ.setdefault("HOTCELL_RESULTS", RUN.results)
    if "linecache" in sys.modules:
        _show_source_lines(sys.modules["linecache"])
    _set_path()


def _set_path():
    """The path of a script: its directory, PYTHONPATH, the library, the user's own packages."""
    first = [os.getcwd()]
    for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if entry:
            first.append(os.path.abspath(entry))
    for entry in RUN.first_on_path:
        if entry in sys.path:
            sys.path.remove(entry)
    sys.path[:0] = RUN.first_on_path = first
    if RUN.turn > 1 or os.environ.get("PYTHONNOUSERSITE"):
        return
    import site

    site.USER_BASE = site.USER_SITE = None
    directory = site.getusersitepackages()
    if not os.path.isdir(directory) or directory in sys.path:
        return
    before = len(sys.path)
    site.addsitedir(directory)
    added = sys.path[before:]
    del sys.path[before:]
    for place, entry in enumerate(sys.path):
        if entry.endswith(("site-packages", "dist-packages")):
            sys.path[place:place] = added
            return
    sys.path.extend(added)


def compile_code(source):
    """The code, with the value of a last expression kept under a name of ours."""
    flags = _TOP_LEVEL_AWAIT
    try:
        tree = compile(source, RUN.file, "exec", flags | _ONLY_AST, True)
    except RecursionError:
        return compile(source, RUN.file, "exec", flags, True)
    import _ast

    if tree.body and type(tree.body[-1]) is _ast.Expr:
        last = tree.body[-1]
        place = {
            key: getattr(last, key)
            for key in ("lineno", "col_offset", "end_lineno", "end_col_offset")
        }
        name = _ast.Name(id=_LAST, ctx=_ast.Store(), **place)
        tree.body[-1] = _ast.Assign(targets=[name], value=last.value, type_comment=None, **place)
    return compile(tree, RUN.file, "exec", flags, True)


def execute():
    """Runs the code; returns the exit code."""
    names = RUN.main.__dict__
    try:
        code = compile_code(RUN.source)
        if code.co_flags & _IS_COROUTINE:
            import asyncio

            asyncio.run(eval(code, names))
        else:
            exec(code, names)
    except SystemExit as end:
        return _exit_code(end)
    except BaseException as error:
        return _failed(error)
    value = names.pop(_LAST, None)
    if value is not None and _getpid() == RUN.pid:
        try:
            _keep_result(value)
        except BaseException as error:
            return _failed(error)
    return 0


def _exit_code(end):
    code = end.code
    if code is None or (isinstance(code, int) and code == 0):
        return 0
    if not isinstance(code, int):
        print(code, file=sys.stderr)
    if _getpid() == RUN.pid:
        RUN.error = _described(end)
    return code & 0xFF if isinstance(code, int) else 1


def _described(error):
    try:
        return part("failure").describe(error)
    except BaseException as second:
        why = "it cannot be described: %s" % type(second).__name__
        return {"type": type(error).__name__[:256], "message": why, "traceback": "", "line": None}


def _failed(error):
    if _getpid() != RUN.pid:
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        RUN.error = _described(error)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _keep_result(value):
    if _is_small_json(value, 4):
        RUN.result_type = type(value).__name__
        RUN.result = {"json": value}
    else:
        part("values").keep_result(value)


def _is_small_json(value, depth):
    """Whether a value is JSON as it stands, and little of it: then nothing has to be compiled."""
    kind = type(value)
    if kind is list or kind is tuple:
        inner = value
    elif kind is dict:
        inner = value.values()
        if not all(type(key) is str and key.isprintable() and len(key) < 256 for key in value):
            return False
    else:
        return (
            value is None
            or kind is bool
            or (kind is int and -(1 << 63) <= value < 1 << 63)
            or (kind is float and value - value == 0)
            or (kind is str and len(value) < 256 and value.isprintable())
        )
    return len(inner) <= 20 and depth > 0 and all(_is_small_json(i, depth - 1) for i in inner)


def finish(code):
    """Ends the process as Python ends, the report written before the last references go."""
    threading = sys.modules.get("threading")
    ours = _getpid() == RUN.pid
    try:
        if threading is not None:
            threading._shutdown()
        if ours and "matplotlib.pyplot" in sys.modules:
            part("artifacts").save_open_figures()
        import atexit

        atexit._run_exitfuncs()
        if ours and os.path.isdir(RUN.results):
            part("artifacts").collect_files()
    except Exception:
        pass
    except BaseException as error:
        if ours and RUN.error is None:
            code = code or _failed(error)
    _flush()
    try:
        if ours:
            write_report()
    except BaseException:
        pass
    try:
        _write_out_files()
        _let_go(RUN.main.__dict__)
    except BaseException:
        pass
    _flush()
    _exit(code)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass


def _let_go(names):
    """Drops what the code left behind in the order that Python has: private names first."""
    for private in (True, False):
        for name in list(names):
            if (name[0:1] == "_" and name[1:2] != "_") is private and name != "__builtins__":
                names[name] = None
    import gc

    gc.collect()


def _write_out_files():
    """Files that the code left open: in a cycle, a collector may close them before it flushes."""
    import gc
    import io

    kinds = {io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom}
    for found in gc.get_objects():
        if type(found) in kinds:
            try:
                found.flush()
            except Exception:
                pass


def report_text(result, error, artifacts):
    report = {
        "status": "ok" if error is None else "error",
        "result": result,
        "result_type": RUN.result_type,
        "result_file": RUN.result_file,
        "error": error,
        "artifacts": artifacts,
    }
    return to_json(report).encode("utf-8", "replace")


def write_report():
    RUN.report_text = report_text
    try:
        report = report_text(RUN.result, RUN.error, RUN.artifacts)
    except Exception as error:
        RUN.result = None
        report = report_text(None, RUN.error or {"type": type(error).__name__}, [])
    if len(report) > RUN.report_bytes:
        report = part("values").shortened_report()
    view = memoryview(report)
    while view:
        view = view[_write(RUN.report, view) :]
    os.close(RUN.report)


def run_order(order):
    """From an order to the end of the process, or of its session."""
    while True:
        prepare_run(order)
        code = 1
        try:
            code = execute()
        except BaseException:
            pass
        if RUN.control is None or _getpid() != RUN.pid:
            finish(code)
        order = part("turns").park(code)


def rehearse():
    """Walks the way of a run with nothing in it. Memory that a forked process touches for the
    first time is copied, which takes longer than the way itself: here nobody waits for it."""
    kept, path, modules = dict(os.environ), list(sys.path), dict(sys.modules)
    # No home: nothing of a user's may be imported here.
    environment = dict({"V%d" % n: "v" for n in range(20)}, HOME="/nonexistent")
    order = {"code": "def f(x): return [x]\nf(1)", "results": "", "env": environment}
    prepare_process()
    descriptor = os.memfd_create("rehearsal") if hasattr(os, "memfd_create") else None
    if descriptor is not None:
        _write(descriptor, to_json(order).encode())
        order = read_order(descriptor)
    prepare_run(order)
    execute()
    report_text(RUN.result, None, [])
    os.environ.clear()
    os.environ.update(kept)
    sys.path[:] = path
    sys.meta_path.pop(0)
    sys.modules["__main__"] = modules["__main__"]
    RUN.__init__()
    RUN.result = RUN.result_type = RUN.error = RUN.main = None


def start():
    if sys.argv[-1] == "zygote":
        part("zygote").serve()
        return
    for descriptor in (RUN.calls, RUN.report):
        os.set_inheritable(descriptor, False)
    prepare_process()
    order = read_order(5)
    if order.get("session"):
        part("turns").adopt(7)
    run_order(order)


start()
