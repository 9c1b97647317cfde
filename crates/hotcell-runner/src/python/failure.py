# What a run says of the exception that ended it: type, message, and a traceback of the user's frames.

import traceback

_KEPT_HEAD = 12
_KEPT_TAIL = 38
_DEEPEST_CHAIN = 20
_WIDEST_GROUP = 50
_LONGEST_FILE = 1 << 24


def describe(error):
    kind = type(error)
    _trim(error, 0, set())
    message = _message(error)
    line = _line(error)
    if kind is SystemExit:
        text = "SystemExit: %s" % message
    else:
        try:
            text = "".join(traceback.format_exception(kind, error, error.__traceback__)).rstrip()
        except BaseException as second:
            text = "%s: %s\n(the traceback cannot be shown: %s)" % (
                _name(kind),
                message,
                type(second).__name__,
            )
    room = run.report_bytes // 4
    if len(text) > room // 2:
        _keep_whole(text)
    values = part("values")
    return {
        "type": values.cut(_name(kind), 256),
        "message": values.cut(message, room // 8),
        "traceback": values.cut(text, room // 2),
        "line": line,
    }


def _keep_whole(text):
    try:
        path = run.results_file("error.txt")
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text[:_LONGEST_FILE])
    except Exception:
        pass


def _name(kind):
    try:
        module, name = kind.__module__, kind.__qualname__
        if module in ("builtins", "__main__"):
            return str(name)
        return "%s.%s" % (module, name)
    except BaseException:
        return "Exception"


def _message(error):
    if issubclass(type(error), SyntaxError) and type(error.msg) is str:
        return error.msg
    try:
        return str(error)
    except BaseException as second:
        return "<its str() raised %s>" % type(second).__name__


def _line(error):
    if issubclass(type(error), SyntaxError) and error.filename == run.file:
        return error.lineno if type(error.lineno) is int else None
    line = None
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == run.file:
            line = step.tb_lineno
        step = step.tb_next
    return line


def _trim(error, depth, seen):
    """Leaves only frames from the code onwards, in the whole chain, and few of very many."""
    seen.add(id(error))
    # Chains first: while they have a cycle, CPython 3.8 may loop at the next exception.
    for link in ("__cause__", "__context__"):
        other = getattr(error, link)
        if other is None:
            continue
        if id(other) in seen or depth >= _DEEPEST_CHAIN:
            setattr(error, link, None)
        else:
            _trim(other, depth + 1, seen)
    error.__traceback__ = _trimmed(error.__traceback__)
    inner = getattr(error, "exceptions", None)
    if type(inner) is tuple and depth < _DEEPEST_CHAIN:
        for each in inner[:_WIDEST_GROUP]:
            if isinstance(each, BaseException) and id(each) not in seen:
                _trim(each, depth + 1, seen)


def _trimmed(first):
    steps = []
    while first is not None:
        steps.append(first)
        first = first.tb_next
    names = [step.tb_frame.f_code.co_filename for step in steps]
    if run.file in names:
        steps = steps[names.index(run.file) :]
    steps = [s for s in steps if not s.tb_frame.f_code.co_filename.startswith("<hotcell")]
    if len(steps) > _KEPT_HEAD + _KEPT_TAIL:
        same = len({(s.tb_frame.f_code, s.tb_lineno) for s in steps}) == 1
        if not same or len(steps) > 5000:
            steps = steps[:_KEPT_HEAD] + steps[-_KEPT_TAIL:]
    if not steps:
        return None
    for step, following in zip(steps, steps[1:]):
        step.tb_next = following
    steps[-1].tb_next = None
    return steps[0]
