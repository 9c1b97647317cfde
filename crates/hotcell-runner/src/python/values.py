# Values as JSON where nothing is lost by it, as text where something would be, never more than fits.
#
# A table is told as columns and rows: column names once, which costs a reader the fewest tokens.

import sys

_DEEPEST = 100
_MOST_NODES = 3000000
_LONGEST_FILE = 1 << 26
_SCALARS = {str, int, bool, type(None)}
_INT_MIN, _INT_END = -(1 << 63), 1 << 64


class Unfaithful(Exception):
    """JSON would lose something, or would not end."""


class Endless(Unfaithful):
    """There is more of it than is ever written."""


def cut(text, most):
    """At most so many characters: head and tail of a longer text."""
    if len(text) <= most:
        return text
    mark = "\n... %d characters left out ...\n" % (len(text) - most)
    room = max(most - len(mark), 0)
    if room < 8:
        return text[:most]
    tail = room // 3
    return text[: room - tail] + mark + text[len(text) - tail :]


def type_name(value):
    name = type.__dict__["__name__"].__get__(type(value))
    return name[:256] if type(name) is str else "object"


def text_of(value):
    """repr, whatever it does."""
    try:
        text = repr(value)
        if type(text) is not str:
            text = str.__str__(text)
        return text
    except RecursionError:
        return "<%s nested too deeply to show>" % type_name(value)
    except ValueError as error:
        if type(value) is int and hasattr(sys, "set_int_max_str_digits"):
            return _text_of_long_int(value)
        return _unshowable(value, error)
    except Exception as error:
        return _unshowable(value, error)


def _unshowable(value, error):
    try:
        why = str(error)
    except BaseException:
        why = ""
    return "<%s: its repr raised %s: %s>" % (type_name(value), type(error).__name__, cut(why, 500))


def _text_of_long_int(value):
    if value.bit_length() > 2000000:
        return "<int of %d bits>" % value.bit_length()
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return int.__repr__(value)
    finally:
        sys.set_int_max_str_digits(before)


class Plain:
    """Turns one value into lists, objects, texts, numbers; raises Unfaithful where it cannot."""

    def __init__(self):
        self.nodes = 0
        self.open = set()
        # What is in many places is turned once and counted as often as it will be written.
        self.known = {}

    def of(self, value, depth=0):
        kind = type(value)
        if kind is str or kind is bool or value is None or kind is float:
            return value
        if kind is int:
            if _INT_MIN <= value < _INT_END:
                return value
            raise Unfaithful
        if depth >= _DEEPEST or id(value) in self.open:
            raise Unfaithful
        known = self.known.get(id(value))
        if known is not None and depth <= known[1]:
            self.count(known[2])
            return known[3]
        self.open.add(id(value))
        before = self.nodes
        try:
            plain = self.container(value, kind, depth)
        finally:
            self.open.discard(id(value))
        self.known[id(value)] = (value, depth, self.nodes - before, plain)
        return plain

    def count(self, more):
        self.nodes += more
        if self.nodes > _MOST_NODES:
            raise Endless

    def container(self, value, kind, depth):
        if kind is list or kind is tuple:
            return self.items(value, depth)
        if kind is dict:
            return self.mapping(value, depth)
        for base in kind.__mro__:
            convert = _BY_TYPE.get(base)
            if convert is not None:
                return convert(self, value, depth)
            convert = _BY_NAME.get((getattr(base, "__module__", None), base.__name__))
            if convert is not None:
                return convert(self, value, depth)
            if "__dataclass_fields__" in base.__dict__:
                return self.fields(value, depth)
        raise Unfaithful

    def items(self, value, depth):
        self.count(len(value) + 1)
        kinds = set(map(type, value))
        if kinds <= _SCALARS:
            if int in kinds:
                numbers = [n for n in value if type(n) is int]
                if min(numbers) < _INT_MIN or max(numbers) >= _INT_END:
                    raise Unfaithful
            return list(value)
        if kinds == {float}:
            return list(value)
        of, depth = self.of, depth + 1
        return [of(item, depth) for item in value]

    def mapping(self, value, depth):
        self.count(dict.__len__(value) + 1)
        of, deeper, plain = self.of, depth + 1, {}
        for key, item in dict.items(value):
            if type(key) is not str:
                raise Unfaithful
            plain[key] = of(item, deeper)
        return plain

    def fields(self, value, depth):
        names = [f.name for f in type(value).__dataclass_fields__.values() if _is_field(f)]
        return {name: self.of(getattr(value, name), depth + 1) for name in names}

    def named_tuple(self, value, depth):
        names = getattr(type(value), "_fields", None)
        items = list(tuple.__iter__(value))
        if type(names) is tuple and len(names) == len(items):
            return {name: self.of(item, depth + 1) for name, item in zip(names, items)}
        return self.items(items, depth)

    def unordered(self, value, depth):
        base = set if issubclass(type(value), set) else frozenset
        items = self.items(list(base.__iter__(value)), depth)
        try:
            return sorted(items)
        except TypeError:
            return items

    def queue(self, value, depth):
        if type(value).__name__ != "deque":
            raise Unfaithful
        return self.items(list(value), depth)

    def member(self, value, depth):
        for base, convert in ((str, str.__str__), (int, int.__int__), (float, float.__float__)):
            if issubclass(type(value), base):
                return convert(value)
        return "%s.%s" % (type_name(value), value.name)

    def frame(self, frame, depth):
        rows, columns = frame.shape
        self.count(rows * columns)
        split = frame.to_dict("split")
        told = {"shape": [rows, columns], "columns": self.labels(split["columns"], depth)}
        if not _counts_up(frame.index):
            told["index"] = self.labels(split["index"], depth)
        missing = frame.isna().values.tolist()
        told["data"] = [
            [None if gone else self.of(item, depth + 3) for item, gone in zip(row, holes)]
            for row, holes in zip(split["data"], missing)
        ]
        return told

    def series(self, series, depth):
        self.count(len(series))
        values = [
            None if gone else self.of(item, depth + 2)
            for item, gone in zip(series.tolist(), series.isna().tolist())
        ]
        if _counts_up(series.index):
            return values
        labels = self.labels(series.index.tolist(), depth)
        if set(map(type, labels)) == {str} and len(set(labels)) == len(labels):
            return dict(zip(labels, values))
        return {"index": labels, "data": values}

    def labels(self, labels, depth):
        return [self.of(label, depth + 1) for label in labels]

    def polars(self, frame, depth):
        rows, columns = frame.shape
        self.count(rows * columns)
        data = [self.items(row, depth + 2) for row in frame.rows()]
        return {"shape": [rows, columns], "columns": list(frame.columns), "data": data}

    def array(self, array, depth):
        self.count(array.size)
        return self.of(array.tolist(), depth)

    def scalar(self, scalar, depth):
        item = scalar.item()
        if type(item) is type(scalar):
            raise Unfaithful
        return self.of(item, depth)


def _is_field(field):
    return getattr(getattr(field, "_field_type", None), "name", "") == "_FIELD"


def _counts_up(index):
    return (
        type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
    )


def _iso(plain, value, depth):
    text = value.isoformat()
    if type(text) is not str:
        raise Unfaithful
    return text


def _as_text(plain, value, depth):
    return str(value)


_BY_TYPE = {
    str: lambda plain, value, depth: str.__str__(value),
    bool: lambda plain, value, depth: bool(value),
    int: lambda plain, value, depth: plain.of(int.__int__(value)),
    float: lambda plain, value, depth: float.__float__(value),
    dict: Plain.mapping,
    list: lambda plain, value, depth: plain.items(list.copy(value), depth),
    tuple: Plain.named_tuple,
    set: Plain.unordered,
    frozenset: Plain.unordered,
}
_BY_NAME = {
    ("enum", "Enum"): Plain.member,
    ("collections", "deque"): Plain.queue,
    ("datetime", "datetime"): _iso,
    ("datetime", "date"): _iso,
    ("datetime", "time"): _iso,
    ("datetime", "timedelta"): _as_text,
    ("decimal", "Decimal"): _as_text,
    ("fractions", "Fraction"): _as_text,
    ("uuid", "UUID"): _as_text,
    ("pathlib", "PurePath"): _as_text,
    ("pathlib._local", "PurePath"): _as_text,
    ("ipaddress", "_IPAddressBase"): _as_text,
    ("numpy", "ndarray"): Plain.array,
    ("numpy", "generic"): Plain.scalar,
    ("pandas.core.frame", "DataFrame"): Plain.frame,
    ("pandas.core.series", "Series"): Plain.series,
    ("pandas.core.indexes.base", "Index"): Plain.array,
    ("pandas", "Index"): Plain.array,
    ("pandas", "DataFrame"): Plain.frame,
    ("pandas", "Series"): Plain.series,
    ("polars.dataframe.frame", "DataFrame"): Plain.polars,
}


def plain_json(value):
    """A value in plain types, and its JSON; Unfaithful if something would be lost."""
    try:
        plain = Plain().of(value)
        return plain, to_json(plain).encode()
    except Unfaithful:
        raise
    except Exception:
        raise Unfaithful from None


def keep_result(value):
    """Puts a value into the report: whole if it fits, else into a file with a preview."""
    kind = type(value)
    run.result_type = type_name(value)
    if part("artifacts").keep(value):
        run.result = {"repr": cut(text_of(value), 500)}
        return
    room = run.report_bytes // 2
    if kind in (bytes, bytearray) and len(value) > 1024:
        _overflow(part("preview").of_bytes(value), "bin", bytes(value))
        return
    endless = False
    try:
        plain, content = plain_json(value)
    except Unfaithful as unfaithful:
        endless = type(unfaithful) is Endless
    else:
        if len(content) <= room:
            run.result = {"json": plain}
        else:
            _overflow_of_json(value, content)
        return
    if endless:
        _overflow(part("preview").of_endless(value), "txt", None)
        return
    text = text_of(value)
    content = text.encode("utf-8", "replace")
    if len(to_json(text).encode("utf-8", "replace")) <= room:
        run.result = {"repr": text}
    else:
        _overflow(part("preview").of_text(text, type_name(value)), "txt", content)


def _overflow_of_json(value, content):
    preview = part("preview").of_value(value)
    if type(value) is str:
        _overflow(preview, "txt", value.encode())
        return
    if type_name(value) == "DataFrame" and hasattr(type(value), "to_csv"):
        try:
            path = run.results_file("result.csv")
            value.to_csv(path, index=not _counts_up(value.index))
            run.result_file = path
            run.result = {"preview": preview}
            return
        except Exception:
            pass
    _overflow(preview, "json", content)


def _overflow(preview, ending, content):
    preview = cut(preview, run.report_bytes // 8)
    if content is None:
        preview += "\n(too large to be written to a file)"
    else:
        try:
            path = run.results_file("result." + ending)
            with open(path, "wb") as file:
                file.write(content[:_LONGEST_FILE])
            run.result_file = path
            if len(content) > _LONGEST_FILE:
                preview += "\n(the file holds its first %d bytes)" % _LONGEST_FILE
        except OSError as error:
            preview += "\n(not written to a file: %s)" % error
    run.result = {"preview": preview}


def shortened_report():
    """The report with less and less in it, until it fits."""
    result, error = run.result, run.error
    if result is not None and "preview" not in result:
        kept = result.get("json", result.get("repr"))
        try:
            _overflow(part("preview").of_value(kept), "json", to_json(kept).encode())
        except Exception:
            run.result = None
        result = run.result
    report_text = run.report_text
    for artifacts, most in ((100, 4096), (20, 1024), (5, 256), (0, 64), (0, 0)):
        if error is not None:
            error = dict(error)
            for key in ("message", "traceback"):
                error[key] = cut(error.get(key) or "", most)
        if result is not None:
            result = {"preview": cut(result["preview"], most)} if most else None
        report = report_text(result, error, run.artifacts[:artifacts])
        if len(report) <= run.report_bytes:
            return report
    return b'{"status":"%s"}' % (b"ok" if error is None else b"error")
