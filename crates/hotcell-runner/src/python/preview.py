# What is shown of a value that does not fit: its shape, its head and its tail.

_TEXT_HEAD = 1200
_TEXT_TAIL = 500
_ITEM = 300
_KEYS = 20
_COLUMNS = 40


def of_value(value):
    kind = type(value)
    name = part("values").type_name(value)
    try:
        if kind is str:
            return of_text(value, "str")
        if name in ("DataFrame", "Series") and hasattr(kind, "shape"):
            return _of_table(value, name)
        if hasattr(kind, "tolist") and hasattr(kind, "dtype"):
            shape = " x ".join(map(str, value.shape))
            return "%s of shape %s, %s\n%s" % (name, shape, value.dtype, _short(value, 1200))
        if issubclass(kind, dict):
            return _of_mapping(dict.copy(value), name)
        if issubclass(kind, list):
            return _of_items(list.copy(value), name)
        if issubclass(kind, tuple):
            return _of_items(list(tuple.__iter__(value)), name)
    except Exception:
        pass
    return of_text(part("values").text_of(value), name)


def of_text(text, name):
    lines = text.count("\n") + 1
    told = "%s of %d characters, %d lines" % (name, len(text), lines)
    if len(text) <= _TEXT_HEAD + _TEXT_TAIL:
        return "%s\n%s" % (told, text)
    gap = len(text) - _TEXT_HEAD - _TEXT_TAIL
    return "%s\n%s\n... %d characters ...\n%s" % (
        told,
        text[:_TEXT_HEAD],
        gap,
        text[-_TEXT_TAIL:],
    )


def of_bytes(value):
    head, tail = bytes(value[:128]), bytes(value[-32:])
    name = type(value).__name__
    return "%s of length %d\n%r\n... %r" % (name, len(value), head, tail)


def of_endless(value):
    import reprlib

    short = reprlib.Repr()
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = 20
    short.maxother = short.maxstring = 200
    name = part("values").type_name(value)
    try:
        return "%s of %d items\n%s" % (name, len(value), short.repr(value))
    except Exception:
        return name


def _of_table(table, name):
    if name == "Series":
        told = "Series of %d rows, %s" % (len(table), table.dtype)
    else:
        rows, columns = table.shape
        kinds = getattr(table, "dtypes", [])
        pairs = ["%s: %s" % pair for pair in zip(table.columns, kinds)][:_COLUMNS]
        told = "DataFrame of %d rows x %d columns\n%s" % (rows, columns, ", ".join(pairs))
    parts = (table.head(5), table.tail(3))
    if hasattr(type(table), "to_csv"):
        head, tail = parts[0].to_csv(), parts[1].to_csv(header=False)
    else:
        head, tail = repr(parts[0]) + "\n", repr(parts[1])
    cut = part("values").cut
    return "%s\n%s...\n%s" % (told, cut(head, 2000), cut(tail, 1200))


def _of_mapping(value, name):
    shown = []
    for key in list(value)[:_KEYS]:
        shown.append("%s: %s" % (_short(key, 80), _shape(value[key])))
    more = len(value) - len(shown)
    if more > 0:
        shown.append("... %d more keys" % more)
    return "%s of %d keys\n%s" % (name, len(value), "\n".join(shown))


def _of_items(value, name):
    kinds = sorted({part("values").type_name(item) for item in value[:1000]})
    told = "%s of %d items (%s)" % (name, len(value), ", ".join(kinds[:8]))
    first = value[0] if value else None
    if type(first) is dict:
        told += "\neach with keys: %s" % ", ".join(_short(key, 40) for key in list(first)[:_KEYS])
    head = "\n".join(_short(item, _ITEM) for item in value[:3])
    tail = "\n".join(_short(item, _ITEM) for item in value[-2:])
    return "%s\n%s\n... %d items ...\n%s" % (told, head, max(len(value) - 5, 0), tail)


def _shape(value):
    name = part("values").type_name(value)
    if type(value) in (list, tuple, set, dict):
        return "%s of %d, %s" % (name, len(value), _short(value, 100))
    return _short(value, 120)


def _short(value, most):
    import reprlib

    short = reprlib.Repr()
    short.maxlevel = 4
    short.maxstring = short.maxother = most
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = 12
    return part("values").cut(short.repr(value), most)
