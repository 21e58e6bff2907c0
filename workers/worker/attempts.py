"""Describes what a worker reports of its attempts: whose claim it was, and why it failed.

The text of an error passes the redaction of the plug-ins before it is logged, reported or made a
signature; where that raises, there is none.
"""

import secrets
import sysconfig
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Final

import anyio.to_thread

from actors import errors as of_actors
from kernel.values import errors as of_kernel
from kernel.values.foreign_code import cause_of, message_of, traceback_of
from kernel.work.reports import MESSAGE_BYTES_MAX, TRACEBACK_BYTES_MAX, AttemptError, Delivery
from kernel.work.signatures import signature_of
from queues import errors as of_queues
from queues.queue.items import CHANCE_BITS, UNKNOWN_WORKER, Claim, claimed_us, token_of, worker_of
from workers.client import errors as of_client
from workers.environment import foreign_threads as of_workers
from workers.environment.foreign_threads import ForeignCodeHangs, call_within, module_of

Redact = Callable[[str], str]

REDACTION_S_MAX: Final = 1.0

_OURS: Final = tuple(
    f"{Path(str(module.__file__)).parents[level]}/"
    for module, level in (
        (of_actors, 0),
        (of_kernel, 1),
        (of_queues, 0),
        (of_client, 0),
        (of_workers, 1),
    )
)
"""The folders of our packages; where it is installed, that of the client is none of the others."""

_PATHS: Final = sysconfig.get_paths()
_INSTALLED: Final = (
    *(f"{_PATHS[name]}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    "<",  # as in <frozen importlib._bootstrap>
)


def new_token(worker_id: str) -> str:
    """Return the token of a claim of a worker's now, which no other claim has."""
    return token_of(worker_id, time.time_ns() // 1_000_000, secrets.randbits(CHANCE_BITS))


def delivery_of(claim: Claim, worker_id: str, ended_us: int) -> Delivery:
    """Return a claim of this worker's that has come to its end."""
    started_us = claimed_us(claim.token, ended_us)
    return Delivery(
        claim=claim.token, worker=worker_id, started_at_us=started_us, ended_at_us=ended_us
    )


def expired_delivery(claim: Claim, now_us: int) -> Delivery:
    """Return the claim before this one, which expired because its worker is gone."""
    token, ended_us = claim.lost, min(now_us, 1000 * claim.lost_at_ms)
    return Delivery(
        claim=token[:64],
        worker=worker_of(token),
        started_at_us=claimed_us(token, ended_us),
        ended_at_us=ended_us,
    )


class ErrorTexts:
    """Makes the texts of errors, by what the plug-ins of a process leave of them."""

    def __init__(self, worker_id: str = UNKNOWN_WORKER, redactors: Sequence[Redact] = ()) -> None:
        """`redactors` are foreign code; each is handed what the one before left."""
        self.worker_id = worker_id
        self._redactors = redactors

    async def of(self, error: BaseException, code: str) -> AttemptError:
        """Return what may be said of an error; takes a second for each redactor at most."""
        describe = partial(self._describe, error, code)
        if not self._redactors:
            return describe()
        return await anyio.to_thread.run_sync(describe)

    def _describe(self, error: BaseException, code: str) -> AttemptError:
        cause = cause_of(error)
        error_class = _class_of(cause)[:200]
        message = self._redact(message_of(cause, MESSAGE_BYTES_MAX), MESSAGE_BYTES_MAX)
        return AttemptError(
            code=code[:200],
            error_class=error_class,
            message=message,
            traceback=self._redact(traceback_of(error, _callers(cause)), TRACEBACK_BYTES_MAX),
            signature=signature_of(error_class, user_frame(cause), message),
        )

    def _redact(self, text: str, bytes_max: int) -> str:
        try:
            for redact in self._redactors:
                text = call_within(REDACTION_S_MAX, redact, text)
            return text.encode("utf-8", "replace")[:bytes_max].decode(errors="ignore")
        except Exception:  # noqa: BLE001 - a redactor is a foreign program; what it failed at is not said
            return ""


def log_fields(error: AttemptError) -> dict[str, str]:
    """Return what a line of the log says of an error."""
    said = f"{error.error_class}: {error.message}" if error.message else error.error_class
    return {"error": said, "exception": error.traceback}


def error_of_code(code: str) -> AttemptError:
    """Return what is said of a failure that no error tells of."""
    return AttemptError(code=code[:200], signature=code[:200])


def _class_of(error: BaseException) -> str:
    kind = TimeoutError if type(error) is ForeignCodeHangs else type(error)
    is_plain = kind.__module__ in ("builtins", "__main__")
    return kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}"


def user_frame(error: BaseException) -> str:
    """Return the innermost function of the user's own code that an error passed through.

    That is the innermost one that is neither ours nor installed; where all are installed, that of
    the package which was called first. Of code that hangs, it is that in which it stands.
    """
    foreign = [each for each in _functions_of(error) if not each[0].co_filename.startswith(_OURS)]
    if not foreign:
        return ""
    own = [each for each in foreign if not each[0].co_filename.startswith(_INSTALLED)]
    package = _package(foreign[0][1])
    code, module = (own or [each for each in foreign if _package(each[1]) == package])[-1]
    return f"{module}.{code.co_qualname}"


def _functions_of(error: BaseException) -> Sequence[tuple[CodeType, str]]:
    if type(error) is ForeignCodeHangs:
        return error.stack.functions
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return [(frame.f_code, module_of(frame)) for frame in frames]


def _callers(error: BaseException) -> tuple[str, ...]:
    """Return how the files begin of what called the user's code: ours, and what is between.

    Where all of the user's code is installed, what is between is shown.
    """
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    has_own = any(not file.startswith((*_OURS, *_INSTALLED)) for file in files)
    return (*_OURS, *_INSTALLED) if has_own else _OURS


def _package(module: str) -> str:
    return module.partition(".")[0]
