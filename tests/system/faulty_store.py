"""A store that ends its own process, unasked and at once, at one of the steps of its use.

A step is each call of the storage port, each begin and end of a savepoint, the moment before and
after COMMIT, and each call of the ledger's own vocabulary; so nothing in the product knows of it.
"""

import functools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import getmembers, isfunction
from typing import Any

from kernel.ledger.ledger import LedgerTransaction
from kernel.ledger.store.tables import Store


class CountedSteps:
    """Counts, and kills at one of the counts; never where there is none."""

    def __init__(self, kill_at: int | None = None) -> None:
        self.count = 0
        self._kill_at = kill_at

    def step(self) -> None:
        self.count += 1
        if self.count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class FaultyTables:
    """The tables of a store, each call a step."""

    def __init__(self, inner: Any, steps: CountedSteps) -> None:
        self._inner = inner
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)

        def call(*args: Any, **options: Any) -> Any:
            self._steps.step()
            return attribute(*args, **options)

        return call if callable(attribute) else attribute

    @contextmanager
    def savepoint(self, *undone: Any) -> Iterator[None]:
        self._steps.step()
        with self._inner.savepoint(*undone):
            self._steps.step()
            try:
                yield
            finally:
                self._steps.step()
        self._steps.step()


class FaultyStore:
    """A store, each use of which is a step."""

    def __init__(self, inner: Store, steps: CountedSteps) -> None:
        self._inner = inner
        self._steps = steps

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        self._steps.step()
        with self._inner.transaction() as tables:
            self._steps.step()
            yield FaultyTables(tables, self._steps)
            self._steps.step()
        self._steps.step()

    def view(self) -> Any:
        return self._inner.view()

    def server_time_us(self) -> int | None:
        return self._inner.server_time_us()

    def engine(self) -> dict[str, str]:
        return self._inner.engine()

    def close(self) -> None:
        self._inner.close()


def step_in_ledger(steps: CountedSteps) -> None:
    """Make each call of a ledger's transaction a step as well, in this process from here on."""
    for name, method in getmembers(LedgerTransaction, isfunction):
        if not name.startswith("_"):
            setattr(LedgerTransaction, name, _stepped(method, steps))


def _stepped(method: Callable[..., Any], steps: CountedSteps) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        steps.step()
        return method(*args, **options)

    return call
