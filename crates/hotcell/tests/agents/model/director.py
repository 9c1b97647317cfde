"""Leads the model through a conversation: one plan after another, each checked by what the model sees."""

import threading
import traceback
from dataclasses import dataclass, field

from .conversation import Call, Reply

FAREWELL = "The script has ended."


class Unmet(AssertionError):
    """What a plan expected to see, and the model did not."""


@dataclass
class Step:
    """A call of the model and what it saw of the result."""

    call: Call
    seen: object = None


@dataclass
class Outcome:
    """How one plan went."""

    name: str
    steps: list[Step] = field(default_factory=list)
    failure: str | None = None
    is_over: bool = False


class Director:
    """Answers the turns of one conversation.

    A plan is a generator function of an agent: it yields a call, or a list of calls made at once,
    and is sent what the model saw of the results. A plan that fails does not keep the next one
    from being tried.
    """

    def __init__(self, agent, plans):
        self.agent = agent
        self.outcomes = [Outcome(plan.__name__) for plan in plans]
        self._plans = [plan(agent) for plan in plans]
        self._current = 0
        self._waiting = []
        self._is_loading = False
        self._replies = {}
        self._lock = threading.Lock()

    @property
    def has_ended(self):
        return self._current >= len(self._plans)

    def answer(self, turn):
        """The reply to a turn. The same turn, sent again, gets the same reply."""
        with self._lock:
            if not self.agent.client.is_main(turn):
                return Reply(text="ok")
            count = len(turn.results)
            if count not in self._replies:
                self.agent.note(turn)
                self._replies[count] = self._advance(turn, count)
            return self._replies[count]

    def _advance(self, turn, count):
        results = self._take_results(turn)
        while not self.has_ended:
            calls = self._next_calls(results)
            if calls is not None:
                return self._reply(turn, calls, count)
            results = None
        return Reply(text=FAREWELL, first_call=count)

    def _take_results(self, turn):
        """Notes what the model saw of the calls that it made last; None before the first."""
        if not self._waiting:
            return None
        results = turn.results[-len(self._waiting) :]
        for step, seen in zip(self._waiting, results, strict=True):
            step.seen = seen
        return results

    def _next_calls(self, results):
        """The calls that the current plan makes next; None once it is over."""
        if self._is_loading:
            return self._wanted
        outcome, plan = self.outcomes[self._current], self._plans[self._current]
        try:
            if results is None:
                wanted = next(plan)
            else:
                wanted = plan.send(results if self._is_list else results[0])
        except StopIteration:
            self._finish(outcome)
            return None
        except Unmet as unmet:
            self._finish(outcome, str(unmet))
            return None
        except Exception:  # A fault of a plan is reported as such, with its place.
            self._finish(outcome, traceback.format_exc())
            return None
        self._is_list = isinstance(wanted, list)
        self._wanted = wanted if self._is_list else [wanted]
        return self._wanted

    def _reply(self, turn, calls, count):
        """The calls by the names that the client gave the tools, which may have to be loaded first."""
        outcome = self.outcomes[self._current]
        missing = [call for call in calls if self.agent.client.address(turn, call) is None]
        if missing and not self._is_loading:
            loading = self.agent.client.load_tools(turn, [call.tool for call in missing])
            if loading is not None:
                self._is_loading = True
                return self._make(turn, [loading], count, outcome)
        self._is_loading = False
        if missing:
            self._finish(outcome, f"the model is not offered the tool {missing[0].tool}")
            self._waiting = []
            return self._advance(turn, count)
        return self._make(turn, calls, count, outcome)

    def _make(self, turn, calls, count, outcome):
        self._waiting = [Step(call) for call in calls]
        outcome.steps += self._waiting
        named = tuple(self.agent.client.address(turn, call) for call in calls)
        return Reply(calls=named, first_call=count)

    def _finish(self, outcome, failure=None):
        outcome.failure, outcome.is_over = failure, True
        self._current += 1
