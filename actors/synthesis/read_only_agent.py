"""Defines a specialist: whoever works on the record without being its writer (§20.2, §20.3, K18).

1. It reads through a view, which belongs to one sequence and cannot write.
2. Its thoughts in between go into its session's context: in memory, bounded, gone after a time.
3. It emits as an intent what it wants done; the orchestrator makes an operation of it, or not.

It holds no kernel, no transaction and no committer, so there is nothing else that it could do. This
is the boundary of an object inside one process, not of the operating system; workers, which are
processes of their own, hold a ledger that is opened for reading.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from actors.errors import ActorError
from actors.orchestrator.intents import Intent
from kernel.ledger.ledger import LedgerView

SESSIONS_MAX = 1024
ENTRIES_MAX = 1024
ENTRY_MAX_BYTES = 256 * 1024
CONTEXT_MAX_BYTES = 4 << 20
LIFETIME_S = 3600
GRACE_S = 3600
EMITTED_MAX = 256

_US_PER_S = 1_000_000


class ContextFull(ActorError):
    """The session's context, or what one specialist may emit, is used up; nothing was taken."""

    code = "session_context_full"


class ScratchSpace:
    """Values that specialists of one session share for a while; none is ever durable."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}
        self._bytes = 0
        self._lock = Lock()

    def put(self, key: str, value: bytes) -> None:
        """Keep a value until the context expires.

        Raises:
            ContextFull: when it does not fit.
        """
        with self._lock:
            size = self._bytes + len(value) - len(self._entries.get(key, b""))
            many = key not in self._entries and len(self._entries) >= ENTRIES_MAX
            if many or len(value) > ENTRY_MAX_BYTES or size > CONTEXT_MAX_BYTES:
                raise ContextFull("the session's context is full")
            self._entries[key] = value
            self._bytes = size

    def get(self, key: str) -> bytes | None:
        """Return a value that was put here."""
        return self._entries.get(key)

    def drop(self, key: str) -> None:
        """Forget a value, if it is there."""
        with self._lock:
            self._bytes -= len(self._entries.pop(key, b""))


class SessionContexts:
    """The contexts of all sessions of a process; the one unused for longest makes room."""

    def __init__(
        self, now_us: Callable[[], int], *, lifetime_s: int = LIFETIME_S, grace_s: int = GRACE_S
    ) -> None:
        self._now_us = now_us
        self._kept_us = (lifetime_s + grace_s) * _US_PER_S
        self._contexts: OrderedDict[str, tuple[int, ScratchSpace]] = OrderedDict()

    def of(self, session_id: str) -> ScratchSpace:
        """Return a session's context, an empty one where there is none; using it prolongs it."""
        now_us = self._now_us()
        self._drop_expired(now_us)
        _, context = self._contexts.pop(session_id, (0, ScratchSpace()))
        if len(self._contexts) >= SESSIONS_MAX:
            self._contexts.popitem(last=False)
        self._contexts[session_id] = (now_us, context)
        return context

    def __len__(self) -> int:
        return len(self._contexts)

    def _drop_expired(self, now_us: int) -> None:
        while self._contexts:
            used_us, _ = next(iter(self._contexts.values()))
            if now_us - used_us < self._kept_us:
                return
            self._contexts.popitem(last=False)


@dataclass(frozen=True, slots=True)
class ReadOnlyAgent:
    """All that a specialist is given."""

    view: LedgerView
    session_context: ScratchSpace
    emitted: list[Intent] = field(default_factory=list)
    """Emitted intents in order; the creator of this handle takes them."""

    def emit(self, intent: Intent) -> None:
        """Ask for something.

        Raises:
            ContextFull: when this specialist has asked for too much.
        """
        if len(self.emitted) >= EMITTED_MAX:
            raise ContextFull(f"a specialist emits at most {EMITTED_MAX} intents")
        self.emitted.append(intent)
