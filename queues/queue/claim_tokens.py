"""Makes and reads the tokens of claims, which say which worker claimed when.

Whoever claims next can tell so of a worker that vanished, and a claim costs no byte more.
"""

from typing import Final

from queues.queue.items import DURATION_MS_MAX

WORKER_PREFIX: Final = "worker-"
UNKNOWN_WORKER: Final = "unknown"
CHANCE_BITS: Final = 20
_WORKER_CHARS, _TIME_CHARS = 8, 11


def token_of(worker_id: str, claimed_ms: int, chance: int) -> str:
    """Return the token of a claim; chance, of `CHANCE_BITS`, tells it from others of its time."""
    return f"{_name_of(worker_id)}{claimed_ms:011x}{chance:05x}"


def is_of(token: str, worker_id: str) -> bool:
    """Tell whether a worker made a claim."""
    return token[:_WORKER_CHARS] == _name_of(worker_id)


def worker_of(token: str) -> str:
    """Return the worker that made a claim, as far as its token says so."""
    name = token[:_WORKER_CHARS]
    return f"{WORKER_PREFIX}{name}" if name.isalnum() else UNKNOWN_WORKER


def claimed_us(token: str, ended_us: int) -> int:
    """Return when a claim was made, by its token; its end where that does not say so."""
    try:
        began_us = 1000 * int(token[_WORKER_CHARS:][:_TIME_CHARS], 16)
    except ValueError:
        return ended_us
    return began_us if 0 <= ended_us - began_us <= 1000 * DURATION_MS_MAX else ended_us


def _name_of(worker_id: str) -> str:
    return worker_id.removeprefix(WORKER_PREFIX)[:_WORKER_CHARS].ljust(_WORKER_CHARS, "0")
