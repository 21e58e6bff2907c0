"""Takes what a job's process raised to its worker, with the traceback that pickle leaves out.

An error that cannot be made anew from its pickled form, because it takes arguments of its own or
holds what is not pickled, is told by its class and its text.
"""

import pickle
from dataclasses import dataclass
from typing import Self

from kernel.values.foreign_code import message_of, traceback_of


class ErrorOfProcess(Exception):
    """An error that stays in the process that raised it; its text names its class."""


class TracebackOfProcess(Exception):
    """The traceback of an error in the process that raised it, as the cause of that error here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True, slots=True)
class RaisedInProcess:
    """What a function raised, in a form that every error has."""

    pickled: bytes
    """Empty where it could not be made anew."""

    said: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException, callers: tuple[str, ...]) -> Self:
        """Return an error's; the frames of callers before its first other one are left out."""
        said = f"{type(error).__name__}: {message_of(error)}"
        return cls(_pickle_of(error), said, traceback_of(error, callers))

    def error(self) -> BaseException:
        """Return the error, whose cause is its traceback."""
        error = ErrorOfProcess(self.said)
        if self.pickled:
            error = pickle.loads(self.pickled)  # noqa: S301 - a process of this worker wrote it
        error.__cause__ = TracebackOfProcess(self.traceback)
        return error


def _pickle_of(error: BaseException) -> bytes:
    try:
        pickled = pickle.dumps(error)
        is_same = type(pickle.loads(pickled)) is type(error)  # noqa: S301 - written just now
    except BaseException:  # noqa: BLE001 - an error is a foreign object
        return b""
    return pickled if is_same else b""
