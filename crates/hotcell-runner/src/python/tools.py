# The package `tools`: servers as modules, tools as functions, calls over one socket.

import _thread
import select
import sys
from os import close as _close, getpid as _getpid, read as _read, write as _write
from time import monotonic as _now

_RESERVED = ("Call", "ToolError", "gather", "search")
_MOST_THREADS = 32
# More than this at once would be mapped and unmapped for each read.
_PIECE = 1 << 16
_lock = _thread.allocate_lock


class ToolError(Exception):
    """A tool call that failed: `code`, `message` and perhaps a `hint`."""

    def __init__(self, code, message="", hint=None):
        Exception.__init__(self, code, message, hint)
        self.code, self.message, self.hint = code, message, hint

    def __str__(self):
        text = "%s (%s)" % (self.message, self.code) if self.message else str(self.code)
        return "%s\nhint: %s" % (text, self.hint) if self.hint else text


class Call:
    """A call on its way. `result()` waits for its answer, and so does `await`."""

    __slots__ = ("_client", "_tool", "_done", "_value", "_error", "_waiter", "_after")

    def __init__(self, client, tool):
        self._client, self._tool = client, tool
        self._done = False
        self._value = self._error = self._waiter = None
        self._after = []

    def __repr__(self):
        state = "waiting" if not self._done else "failed" if self._error else "done"
        return "<call of %s, %s>" % (".".join(self._tool or ("tools",)), state)

    def done(self):
        return self._done

    def result(self, timeout=None):
        if not self._done:
            self._client.wait(self, timeout)
        if self._error is not None:
            raise ToolError(*self._error)
        return self._value

    def __await__(self):
        if not self._done:
            import asyncio

            loop = asyncio.get_running_loop()
            future = loop.create_future()

            def wake():
                if not future.done():
                    future.set_result(None)

            def answered():
                try:
                    loop.call_soon_threadsafe(wake)
                except RuntimeError:
                    pass

            if self._client.follow(self, answered):
                yield from future
        return self.result()


class Client:
    """One end of the socket. Whoever waits reads for all; a thread reads only for coroutines."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.pid = run.pid
        self.next_id = 0
        self.pending = {}
        self.state = _lock()
        self.writing = _lock()
        self.reading = False
        self.halfway = False
        self.closed = None
        self.retired = False
        self.buffer = b""
        self.followed = 0
        self.follower = None
        self.poller = select.poll()
        self.poller.register(descriptor, select.POLLIN)

    def begin(self, head, arguments, tool=None):
        """Sends one message; `head` is its JSON from after the id up to the arguments."""
        if _getpid() != self.pid:
            raise ToolError(
                "unavailable",
                "tools cannot be called from a process that the code forked",
                "call tools in the process that runs the code, and use threads or gather",
            )
        call = Call(self, tool)
        with self.state:
            if self.closed:
                raise ToolError("unavailable", self.closed)
            self.next_id = number = self.next_id + 1
            self.pending[number] = call
        frame = b'{"id":%d,%s%s}' % (number, head, arguments)
        self.send(len(frame).to_bytes(4, "big") + frame)
        return call

    def send(self, frame):
        with self.writing:
            if self.retired:
                return
            try:
                sent = _write(self.descriptor, frame)
                while sent < len(frame):
                    sent += _write(self.descriptor, memoryview(frame)[sent:])
                return
            except OSError as error:
                why = error
            except BaseException:
                # Half a message may be out: nothing after it could be understood.
                self.close("a call was interrupted while it was sent")
                raise
        self.close("the host does not take calls any more: %s" % why)

    def wait(self, call, timeout=None):
        """Returns when the call is done: reads by itself, or waits while another thread reads."""
        if _getpid() != self.pid:
            raise ToolError("unavailable", "this call was made by another process")
        deadline = None
        if timeout is not None:
            deadline = _now() + timeout
        while not call._done:
            with self.state:
                if call._done:
                    return
                leads = not self.reading
                if leads:
                    self.reading = True
                else:
                    waiter = call._waiter
                    if waiter is None:
                        waiter = call._waiter = _lock()
                        waiter.acquire()
            if leads:
                try:
                    while not call._done:
                        if not self.read_some(deadline):
                            break
                finally:
                    self.hand_over()
            else:
                patience = -1 if deadline is None else max(deadline - _now(), 0)
                if waiter.acquire(True, patience) and call._done:
                    # Others may wait for the same call.
                    _release(waiter)
            if deadline is not None and not call._done and _now() >= deadline:
                raise TimeoutError("no answer to %r within %s s" % (call, timeout))

    def hand_over(self):
        """Gives up reading; somebody who still waits goes on with it."""
        with self.state:
            self.reading = False
            if self.retired and self.follower is None:
                _close(self.descriptor)
                return
            if (self.followed or self.retired) and self.follower is not None:
                _release(self.follower)
                return
            for call in self.pending.values():
                if call._waiter is not None:
                    _release(call._waiter)
                    return

    def read_some(self, deadline=None):
        """Reads once and gives out the answers that are complete; False when time is up."""
        if self.halfway:
            self.close("an answer was lost when reading was interrupted")
            return True
        # An interrupt while nothing has come finds us here, where no byte can be lost.
        if deadline is None:
            self.poller.poll()
        elif not self.poller.poll(max(deadline - _now(), 0) * 1000):
            return False
        self.halfway = True
        try:
            data = _read(self.descriptor, _PIECE)
        except OSError as error:
            self.halfway = False
            self.close("the host cannot be read from: %s" % error)
            return True
        buffer = self.buffer
        if buffer:
            if type(buffer) is bytes:
                buffer = bytearray(buffer)
            buffer += data
        else:
            buffer = data
        start, end = 0, len(buffer)
        answers = []
        while end - start >= 4:
            size = int.from_bytes(buffer[start : start + 4], "big")
            if end - start - 4 < size:
                break
            answers.append(bytes(buffer[start + 4 : start + 4 + size]))
            start += 4 + size
        self.buffer = buffer[start:] if start else buffer
        self.halfway = False
        if not data:
            self.close("the host takes no more calls from this run")
        for answer in answers:
            self.answer(answer)
        return True

    def answer(self, payload):
        try:
            message = from_json(payload.decode())
            number = message["id"]
        except Exception:
            self.close("the host sent something that is no answer")
            return
        error = message.get("error")
        with self.state:
            call = self.pending.pop(number, None)
            if call is None:
                return
        if error is not None:
            hint = error.get("hint")
            error = (
                str(error.get("code") or "internal"),
                str(error.get("message") or ""),
                str(hint) if hint else None,
            )
        self.complete(call, message.get("ok"), error)

    def complete(self, call, value, error):
        call._value, call._error = value, error
        with self.state:
            call._done = True
            after = call._after
            call._after = ()
            self.followed -= len(after)
            if call._waiter is not None:
                _release(call._waiter)
        for function in after:
            function()

    def close(self, why):
        with self.state:
            self.closed = self.closed or why
            calls = list(self.pending.values())
            self.pending.clear()
        for call in calls:
            self.complete(call, None, ("unavailable", self.closed, None))

    def retire(self):
        """Lets go of the socket, once nobody reads from it: its number may become another's."""
        import _socket
        from os import dup

        why = "the run that made this call has ended"
        with self.writing, self.state:
            self.retired = True
            self.closed = self.closed or why
            if self.reading or self.follower is not None:
                # Whoever reads wakes up.
                ours = _socket.socket(fileno=dup(self.descriptor))
                ours.shutdown(_socket.SHUT_RDWR)
                ours.close()
            else:
                _close(self.descriptor)
        self.close(why)
        with self.state:
            if self.follower is not None and not self.reading:
                _release(self.follower)

    def follow(self, call, function):
        """Calls a function when the call is done, from another thread; says whether it will."""
        if _getpid() != self.pid:
            raise ToolError("unavailable", "this call was made by another process")
        with self.state:
            if call._done:
                return False
            call._after.append(function)
            self.followed += 1
            if self.follower is None:
                self.follower = _lock()
                _thread.start_new_thread(self.read_for_followers, ())
            else:
                _release(self.follower)
        return True

    def read_for_followers(self):
        while True:
            self.follower.acquire()
            with self.state:
                if self.retired and not self.reading:
                    _close(self.descriptor)
                    return
                if self.reading or not self.followed:
                    continue
                self.reading = True
            try:
                while self.followed:
                    self.read_some()
            finally:
                self.hand_over()


def _release(lock):
    try:
        lock.release()
    except RuntimeError:
        pass


def client():
    if run.client is None:
        run.client = Client(run.calls)
    return run.client


def _arguments(arguments):
    try:
        return to_json(arguments).encode()
    except Exception:
        pass
    values = part("values")
    try:
        return values.plain_json(arguments)[1]
    except values.Unfaithful:
        pass
    for name, value in arguments.items():
        try:
            values.plain_json(value)
        except values.Unfaithful:
            raise ToolError(
                "invalid_argument",
                "argument %s is a %s that JSON cannot hold" % (name, values.type_name(value)),
                "pass text, numbers, lists and dicts with text keys",
            ) from None
    raise ToolError("invalid_argument", "the arguments cannot be written as JSON")


class Tool:
    """One tool of a server: call it with keywords, or `start` it and ask for the result later."""

    def __init__(self, server, name):
        self.__name__ = self.__qualname__ = name
        self.__module__ = "tools." + server
        self._key = (server, name)
        self._head = b'"op":"call","server":%s,"tool":%s,"arguments":' % (
            to_json(server).encode(),
            to_json(name).encode(),
        )

    def __repr__(self):
        return "<tool %s.%s>" % self._key

    def __call__(self, /, *positional, **arguments):
        if positional:
            self._refuse(positional)
        return client().begin(self._head, _arguments(arguments), self._key).result()

    def start(self, /, *positional, **arguments):
        if positional:
            self._refuse(positional)
        return client().begin(self._head, _arguments(arguments), self._key)

    def _refuse(self, positional):
        name = self.__name__
        how = "%s(name=value)" % name
        if len(positional) == 1 and type(positional[0]) is dict:
            how = "%s(**arguments)" % name
        raise TypeError(
            "%s() takes keyword arguments only: write %s; its stub is in /tools/%s/%s.pyi"
            % (name, how, self._key[0], name)
        )


def ask(operation, **fields):
    rest = to_json(dict(fields, op=operation)).encode()[1:-1]
    return client().begin(rest, b"").result()


def search(query, detail="stub", server=None, limit=5):
    """Tools that fit a query, as text; detail is name, stub, full or whole."""
    return ask("search", query=query, detail=detail, server=server, limit=limit)


def gather(*calls):
    """Results in order, of calls that were started and of functions without arguments, which
    run at once in threads. The first error is raised when all are done."""
    calls = list(calls)
    if len(calls) == 1 and type(calls[0]) in (list, tuple):
        calls = list(calls[0])
    for call in calls:
        if type(call) is Tool or not (type(call) is Call or callable(call)):
            raise TypeError(
                "gather() takes calls such as tool.start(name=value), or functions without"
                " arguments such as lambda: tool(name=value); got %r" % (call,)
            )
    outcomes = [None] * len(calls)

    def settle(place, wait):
        try:
            outcomes[place] = (wait(), None)
        except BaseException as error:
            outcomes[place] = (None, error)

    functions = [place for place, call in enumerate(calls) if type(call) is not Call]
    threads = _run_functions(calls, functions, settle)
    for place, call in enumerate(calls):
        if type(call) is Call:
            settle(place, call.result)
    for thread in threads:
        thread.join()
    for _, error in outcomes:
        if error is not None:
            raise error
    return [value for value, _ in outcomes]


def _run_functions(calls, places, settle):
    if not places:
        return []
    import threading

    places = iter(places)
    taking = _lock()

    def outcome(function):
        value = function()
        return value.result() if type(value) is Call else value

    def work():
        while True:
            with taking:
                place = next(places, None)
            if place is None:
                return
            settle(place, lambda: outcome(calls[place]))

    count = min(sum(type(call) is not Call for call in calls), _MOST_THREADS)
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def _near(name, names):
    import difflib

    near = difflib.get_close_matches(name, names, 3, 0.5) or sorted(names)[:8]
    return "near ones: %s" % ", ".join(near) if near else "there are none"


def _missing(name, text):
    # Not the module's full name, or `from tools import x` would swallow the error.
    return ModuleNotFoundError(text, name=name.rsplit(".", 1)[-1])


class Loader:
    """Makes the modules; what they hold was asked for when they were found."""

    def __init__(self, fill):
        self.fill = fill

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self.fill(module)


def find_spec(name):
    from importlib.machinery import ModuleSpec

    steps = name.split(".")
    if len(steps) == 1:
        fill = _fill_package
    elif len(steps) == 2:
        names = _tools_of(name, steps[1])

        def fill(module):
            _fill_server(module, steps[1], names)

    else:
        package = sys.modules["tools." + steps[1]]
        near = _near(steps[-1], package.__all__)
        raise _missing(name, "server %s has no tool %s; %s" % (steps[1], steps[-1], near))
    return ModuleSpec(name, Loader(fill), origin="hotcell", is_package=True)


def _tools_of(name, server):
    try:
        return [str(each) for each in ask("list", server=server)]
    except ToolError as error:
        if error.code != "not_found":
            raise ImportError("tools.%s cannot be imported: %s" % (server, error)) from None
    servers = [str(each) for each in ask("list", server=None)]
    raise _missing(name, "no server %s in tools; %s" % (server, _near(server, servers)))


def _fill_package(module):
    module.__doc__ = "The tools of this cell: one module a server, and search, gather, ToolError."
    for each in (Call, ToolError, gather, search):
        each.__module__ = "tools"
        setattr(module, each.__name__, each)
    module.__all__ = list(_RESERVED)
    module.__dir__ = lambda: sorted(set(_RESERVED) | set(ask("list", server=None)))
    module.__getattr__ = _server


def _server(name):
    if name.startswith("_"):
        raise AttributeError(name)
    from importlib import import_module

    try:
        return import_module("tools." + name)
    except ImportError as error:
        raise AttributeError(str(error)) from None


def _fill_server(module, server, names):
    module.__doc__ = "Tools of the server %s; each takes keyword arguments." % server
    module.__all__ = names
    for name in names:
        setattr(module, name, Tool(server, name))

    def missing(name):
        text = "server %s has no tool %s" % (server, name)
        if not name.startswith("__"):
            text += "; " + _near(name, names)
        raise AttributeError(text)

    module.__getattr__ = missing
