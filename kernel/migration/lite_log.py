"""Takes a log of version 1.5: JSON lines, one lite envelope a line (§2.8).

Every envelope becomes a row of its own, in the order of the lines: recorded, sealed in the chain,
and applied to nothing. The whole log is read and judged before the first row is written, so it is
read twice, with an id and a hash of each line in memory. A row that is on the record already is
passed over, so that a log that was taken in part is taken to its end.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from pydantic import ValidationError

from kernel.ledger import schema
from kernel.ledger.ledger import Document, Ledger, LedgerTransaction, LedgerView
from kernel.ledger.store.tables import Row
from kernel.ledger.supersession import is_lite
from kernel.model.envelope import MAX_DEPTH, MAX_ENVELOPE_BYTES
from kernel.model.lite import LITE_INTENT, LITE_VERSION, PBEOperationReceiptLite
from kernel.model.problems import first_problem
from kernel.model.rules_version import RULES_VERSION
from kernel.transaction.checks.schema import TOO_LARGE, names_hold_nul, too_many_entries
from kernel.values.canonical import (
    CanonicalizationError,
    canonicalize,
    canonicalize_plain,
    sha256_hex,
)
from kernel.values.errors import KernelError
from kernel.values.host import iso_time
from kernel.values.json_lines import LineRefused, json_lines
from kernel.values.json_text import RepeatedKey, depth_exceeds
from kernel.values.session_names import is_of_the_runtime

BATCH_ROWS = 256
"""Rows of one transaction."""

LINES_MAX = 1_000_000
"""Lines of one log; each is remembered by its hash while it is taken."""

INVALID = "lite_envelope_invalid"
_CODES = {
    "json_line_too_large": TOO_LARGE,
    "json_lines_too_many": "lite_log_too_long",
    RepeatedKey.code: RepeatedKey.code,
}
"""The code of a line that is no JSON object as it should be."""

_NO_EFFECTS = sha256_hex(b"[]")
_NOT_NAMES = {"primitive_effects", "affected_subgraph_descriptor", "recorded_model_outputs"}

Progress = Callable[[int], None]
"""Told how many lines are done."""


class LiteLogInvalid(KernelError):
    """A line that cannot be taken; nothing of the log was.

    `lite_envelope_invalid`, `envelope_too_large`, `json_key_repeated`,
    `envelope_schema_version_unsupported`, `lite_operation_conflict` where
    the operation is on the record, or in the log, with other content, `lite_log_too_long`, and
    `lite_log_changed` where the log was written while it was read.
    """

    def __init__(self, line: int, message: str, code: str = INVALID) -> None:
        super().__init__(f"line {line}: {message}", code=code)
        self.line = line
        """Counted from one."""


@dataclass(frozen=True, slots=True)
class LiteLine:
    """One line of a lite log: its number, its envelope and its bytes."""

    number: int
    lite: PBEOperationReceiptLite
    content: bytes
    """Canonical, as it is stored."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The numbers of lines that were taken and that were on the record before."""

    taken: int
    on_record: int
    """Lines whose operation was on the record before, or stands in the log twice."""


def take_log(ledger: Ledger, log: BinaryIO, progress: Progress | None = None) -> Taken:
    """Take a log that can be read twice; durable batch by batch, resumable by taking it again.

    Raises:
        LiteLogInvalid: naming the line; nothing was written.
    """
    report = progress or (lambda _: None)
    with ledger.view() as view:
        judged = _judge(view, log, report)
    log.seek(0)
    lines, lines_taken, done = read_lite_log(log), 0, 0
    while batch := list(islice(lines, BATCH_ROWS)):
        with ledger.transaction() as transaction:
            for line in batch:
                if judged.get(line.lite.operation_id) != _digest(line.content):
                    raise LiteLogInvalid(line.number, "it was written since", "lite_log_changed")
                lines_taken += _take(transaction, line)
        done += len(batch)
        report(done)
    return Taken(lines_taken, done - lines_taken)


def read_lite_log(log: BinaryIO) -> Iterator[LiteLine]:
    """Yield the lines of a log.

    Raises:
        LiteLogInvalid: at the first line that is no lite envelope.
    """
    for line in json_lines(log, MAX_ENVELOPE_BYTES, lines_max=LINES_MAX, may_be_empty=False):
        if isinstance(line, LineRefused):
            raise LiteLogInvalid(line.line, str(line), _CODES.get(line.code, INVALID))
        yield _read_line(line.number, line.value)


def _judge(view: LedgerView, log: BinaryIO, report: Progress) -> dict[str, bytes]:
    """Read every line, and return the hash of each operation's content."""
    digests: dict[str, bytes] = {}
    for line in read_lite_log(log):
        operation_id = line.lite.operation_id
        content_digest = _digest(line.content)
        if digests.setdefault(operation_id, content_digest) != content_digest:
            message = f"{operation_id} stands in the log before, with other content"
            raise LiteLogInvalid(line.number, message, "lite_operation_conflict")
        _is_on_record(view, line)
        report(line.number)
    return digests


def _read_line(number: int, document: Document) -> LiteLine:
    oversize = too_many_entries(document)
    if oversize is not None:
        raise LiteLogInvalid(number, oversize.message, TOO_LARGE)
    _check_versions(number, document)
    if depth_exceeds(document, MAX_DEPTH):
        raise LiteLogInvalid(number, f"nested deeper than {MAX_DEPTH}")
    try:
        content = canonicalize(document)
        lite = PBEOperationReceiptLite.model_validate_json(content)
    except CanonicalizationError as error:
        raise LiteLogInvalid(number, str(error)) from None
    except ValidationError as error:
        raise LiteLogInvalid(number, ": ".join(first_problem(error))) from None
    if names_hold_nul(lite.model_dump(exclude=_NOT_NAMES)):
        raise LiteLogInvalid(number, "a name holds the character U+0000")
    if lite.session_id is not None and is_of_the_runtime(lite.session_id):
        raise LiteLogInvalid(number, f"session_id: {lite.session_id} is the runtime's own")
    return LiteLine(number, lite, content)


def _check_versions(number: int, document: Document) -> None:
    versions = {"envelope_version": (LITE_VERSION,), "schema_version": (None, 1)}
    for name, known in versions.items():
        stated = document.get(name)
        if isinstance(stated, bool) or stated not in known:
            raise LiteLogInvalid(
                number, f"{name} is {known[-1]}", "envelope_schema_version_unsupported"
            )


def _is_on_record(view: LedgerView, line: LiteLine) -> bool:
    """Tell whether a line was taken before.

    Raises:
        LiteLogInvalid: when something else has its operation id.
    """
    row = view.log_row_of(line.lite.operation_id)
    if row is None:
        return False
    if row["supersedes_sequence"]:
        row = view.tables.get(schema.kernel_event_log, row["supersedes_sequence"])
    if row is None or not _holds(view, row, line):
        message = f"{line.lite.operation_id} is on the record with other content"
        raise LiteLogInvalid(line.number, message, "lite_operation_conflict")
    return True


def _holds(view: LedgerView, row: Row, line: LiteLine) -> bool:
    return is_lite(row) and view.blob(row["envelope_payload_blob_ref"]) == line.content


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _take(transaction: LedgerTransaction, line: LiteLine) -> bool:
    """Append the row of a line; False where it is on the record."""
    if _is_on_record(transaction, line):
        return False
    transaction.next_commit_time_us()
    head, lite = transaction.head_now, line.lite
    sequence, committed_at = head.ec_sequence_number + 1, iso_time(head.committed_at_us)
    blob_ref = transaction.put_blob(line.content)
    document: Document = {
        "prior_row_hash": head.row_hash,
        "ec_sequence_number": str(sequence),
        "operation_id": lite.operation_id,
        "envelope_payload_blob_ref": blob_ref,
        "semantic_intent": LITE_INTENT,
        "operation_kind": lite.operation_kind,
        "actor": lite.actor,
        "idempotency_key": lite.idempotency_key,
        "effect_kind_set": [],
        "canonical_effect_kind_set": [],
        "causal_parent_operation_ids": list(lite.causal_parent_operation_ids or ()),
        "affected_subgraph_descriptor_summary": {"scope_kind": "", "affected_node_count": 0},
        "recorded_at": lite.recorded_at,
        "committed_at": committed_at,
        "applied_effects_hash": _NO_EFFECTS,
        "receipt_chain_head": head.receipt_hash,
        "rules_version": RULES_VERSION,
        "schema_version": 1,
    }
    if lite.session_id is not None:
        document["session_id"] = lite.session_id
    row_bytes = canonicalize_plain(document)
    row_hash = sha256_hex(row_bytes)
    transaction.tables.append(
        schema.kernel_event_log,
        {
            "ec_sequence_number": sequence,
            "operation_id": lite.operation_id,
            "supersedes_sequence": 0,
            "prior_row_hash": head.row_hash,
            "row_hash": row_hash,
            "rules_version": RULES_VERSION,
            "row_bytes": row_bytes,
            "envelope_payload_blob_ref": blob_ref,
            "semantic_intent": LITE_INTENT,
            "session_id": lite.session_id,
            "commit_epoch_id": None,
            "committed_at": committed_at,
        },
    )
    transaction.write_causes(sequence, lite.causal_parent_operation_ids or ())
    head.ec_sequence_number, head.row_hash = sequence, row_hash
    return True
