"""Each elimination store under one name, and how another process comes to the same one."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from actors.incidents.ledger_elimination_store import LedgerEliminationStore
from kernel.belief.elimination_store import EliminationProvenance, EliminationStore
from kernel.belief.memory_store import InMemoryStore
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from workers.environment.system_host import system_host
from workers.tee.store import TeeStore

WHY = EliminationProvenance("adapter://test", "probe:1")
COMMON = [f"common-{number}" for number in range(8)]


class OpenedStore:
    """A store of a kind at a place: a file, a URL, or nothing where it lives in memory.

    `known` is the universe of a session that was created by another process, for a Tee.
    """

    def __init__(self, kind: str, place: str, known: frozenset[str] | None = None) -> None:
        self.kind, self.place = kind, place
        self.ledger: Ledger | None = None
        self.store: EliminationStore = self._open(known)

    def _open(self, known: frozenset[str] | None) -> EliminationStore:
        if self.kind == "memory":
            return InMemoryStore()
        if self.kind.startswith("tee"):
            return TeeStore(self.place, known=None if known is None else lambda _: known)
        self.ledger = Ledger.create(self._rows(), system_host())
        return LedgerEliminationStore(self.ledger)

    def _rows(self):
        if self.kind == "ledger memory":
            return MemoryStore()
        if self.kind == "ledger postgres":
            from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

            return PostgresStore(self.place)
        return SqliteStore(Path(self.place))

    @contextmanager
    def again(self, known: frozenset[str]) -> Iterator[EliminationStore]:
        """Another store over what this one keeps, as a process that starts now would have it."""
        if self.ledger is not None:
            yield LedgerEliminationStore(self.ledger)
        elif isinstance(self.store, TeeStore):
            with closing(TeeStore(self.place, known=lambda _: known)) as store:
                yield store
        else:
            yield self.store

    def close(self) -> None:
        if self.ledger is not None:
            self.ledger.close()
        if isinstance(self.store, TeeStore):
            self.store.close()


def universe_of(*names: str, count: int) -> frozenset[str]:
    """What processes of these names strike together, and one hypothesis that nobody does."""
    own = [f"{name}-{number}" for name in names for number in range(count)]
    return frozenset([*own, *COMMON, "survivor"])


def strike_all(store: EliminationStore, session_id: str, name: str, count: int, tell) -> None:
    """Strike `NAME-0` to `NAME-COUNT` and what everybody strikes; tell what each call applied."""
    for number in range(count):
        claimed = {f"{name}-{number}", COMMON[number % len(COMMON)]}
        tell(sorted(store.eliminate(session_id, claimed, WHY).applied))


def striker(
    connection: Connection,
    opened: tuple[str, str],
    universe: frozenset[str],
    session_id: str,
    name: str,
    count: int,
) -> None:
    """Run as a process: say that the store is open, wait for a word, then tell of each call."""
    with closing(OpenedStore(*opened, known=universe)) as other:
        connection.send("ready")
        connection.recv()
        strike_all(other.store, session_id, name, count, connection.send)
