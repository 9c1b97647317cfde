# Pictures, pages and files that a run leaves behind.

import os
import sys

_MOST = 100
_DEEPEST = 4
_RICH = (
    ("_repr_png_", "png"),
    ("_repr_jpeg_", "jpg"),
    ("_repr_svg_", "svg"),
    ("_repr_html_", "html"),
)
_MIMES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "html": "text/html",
    "htm": "text/html",
    "txt": "text/plain",
    "log": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "json": "application/json",
    "pdf": "application/pdf",
    "zip": "application/zip",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
_saved_figures = {}
_numbers = {}


def keep(value):
    """Keeps a value that can be shown as a picture or page; says whether it was one."""
    kind = type(value)
    try:
        names = [(str(base.__module__), str(base.__name__)) for base in kind.__mro__]
    except Exception:
        return False
    if ("matplotlib.figure", "Figure") in names:
        return _save_figure(value)
    if any(module.split(".")[0] in ("pandas", "polars") for module, _ in names):
        return False
    for method, ending in _RICH:
        content = _content(value, kind, method)
        if content:
            _write(ending, content)
            return True
    return False


def _content(value, kind, method):
    function = getattr(kind, method, None)
    if not callable(function):
        return None
    try:
        content = function(value)
    except Exception:
        return None
    if type(content) is tuple and content:
        content = content[0]
    if type(content) is str:
        return content.encode("utf-8", "replace")
    return content if type(content) is bytes else None


def _write(ending, content):
    with open(_fresh("display", ending), "wb") as file:
        file.write(content)


def _fresh(stem, ending):
    while True:
        number = _numbers[stem] = _numbers.get(stem, 0) + 1
        path = run.results_file("%s-%d.%s" % (stem, number, ending))
        if not os.path.lexists(path):
            return path


def _save_figure(figure):
    path = _fresh("figure", "png")
    try:
        figure.savefig(path, format="png")
    except Exception as error:
        print("figure not saved: %s: %s" % (type(error).__name__, error), file=sys.stderr)
        return False
    _saved_figures[id(figure)] = figure
    return True


def save_open_figures():
    pyplot = sys.modules["matplotlib.pyplot"]
    for number in pyplot.get_fignums()[:_MOST]:
        figure = pyplot.figure(number)
        if _saved_figures.get(id(figure)) is not figure:
            _save_figure(figure)


def forget_figures():
    _saved_figures.clear()
    _numbers.clear()


def save_shown_figures(pyplot):
    """`show` saves the open figures and closes them, as a notebook does."""
    original = pyplot.show
    if getattr(original, "saves_figures", False):
        return

    def show(*args, **kwargs):
        if os.getpid() != run.pid or pyplot.get_backend().lower() != "agg":
            return original(*args, **kwargs)
        save_open_figures()
        pyplot.close("all")

    show.saves_figures = True
    pyplot.show = show


def collect_files():
    """Every regular file in the directory of results, up to a number and a depth."""
    skipped = {run.result_file}
    found = []
    _scan(run.results, 0, found)
    for path, size in sorted(found):
        if path not in skipped:
            ending = path.rsplit(".", 1)[-1].lower()
            mime = _MIMES.get(ending, "application/octet-stream")
            run.artifacts.append({"path": path, "mime": mime, "bytes": size})


def _scan(directory, depth, found):
    with os.scandir(directory) as entries:
        for entry in entries:
            if len(found) >= _MOST:
                return
            try:
                if entry.is_file(follow_symlinks=False):
                    found.append((entry.path, entry.stat(follow_symlinks=False).st_size))
                elif entry.is_dir(follow_symlinks=False) and depth < _DEEPEST:
                    _scan(entry.path, depth + 1, found)
            except OSError:
                continue
