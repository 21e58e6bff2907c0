"""Reads the rows of a source, from where a run has them on record."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from actors.errors import PipelineSourceDiffers
from kernel.landscape.canonical_types import Canonical, data_or_repr, digest_of
from kernel.landscape.open_work import source_rows
from kernel.ledger.ledger import Ledger
from kernel.ledger.store.tables import Row
from kernel.values.canonical import sha256_hex
from workers.pipelines.engine.node import PipelineNode, parameters_of
from workers.pipelines.engine.run_records import row_name

_END: Any = object()


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row of a source in its recorded form."""

    index: int
    row_id: str
    content: Canonical


class SourceRows:
    """The rows of a source that a run has not on record yet."""

    def __init__(
        self, source: PipelineNode, run_id: str, recorded: int, call: Callable[..., Any]
    ) -> None:
        """`call` calls the functions of the source, each row by itself; see `WalkTools`."""
        self._call = call
        self._source = source
        self._run_id = run_id
        self._next = recorded
        self._rows: Iterator[Any] = iter(())
        self.has_ended = False

    def open(self, ledger: Ledger) -> None:
        """Begin behind the rows that are on record.

        Raises:
            PipelineSourceDiffers: the source gives others than those.
            Exception: what the source raises.
        """
        if not self.has_ended:
            self._rows = self._begin_rows(ledger)

    def read(self, limit: int) -> list[SourceRow]:
        """Return the next rows, at most so many; fewer where the source has ended.

        Raises:
            Exception: what the source raises.
        """
        rows: list[SourceRow] = []
        if self.has_ended:
            return rows
        while len(rows) < limit and (data := self._next_data(self._rows)) is not _END:
            content = Canonical(data_or_repr(data))
            rows.append(SourceRow(self._next, row_name(self._run_id, self._next), content))
            self._next += 1
        self.has_ended = len(rows) < limit
        return rows

    def _begin_rows(self, ledger: Ledger) -> Iterator[Any]:
        if parameters_of(self._source.function):
            behind: Iterator[Any] = self._call(lambda: iter(self._source(self._next)))
            return behind
        rows: Iterator[Any] = self._call(lambda: iter(self._source()))
        if self._next:
            self._pass_over(ledger, rows)
        return rows

    def _pass_over(self, ledger: Ledger, rows: Iterator[Any]) -> None:
        """Go on to the first row that is not on record; linear in those that are."""
        with ledger.view() as view:
            for row in source_rows(view, self._run_id):
                data = self._next_data(rows)
                if data is _END or not _is_recorded(row, data_or_repr(data)):
                    raise PipelineSourceDiffers(
                        f"row {row['row_index']} of the source is not the one that the run has"
                        " recorded; restore the source, or begin another run"
                    )

    def _next_data(self, rows: Iterator[Any]) -> Any:
        return self._call(next, rows, _END)


def _is_recorded(row: Row, content: bytes) -> bool:
    """Tell whether typed JSON is that of a recorded row: 1.0 is not 1, though they hash alike."""
    ref: str | None = row["source_data_ref"]
    recorded: str = row["source_data_hash"]
    return digest_of(content) == recorded if ref is None else sha256_hex(content) == ref
