"""Verifies an export by itself: no ledger, nothing but the file (`kernel/audit/export.py`).

Every line is canonical JSON with exactly the members of its kind, so a byte is either part of a
value or wrong. Every value is then held against a hash: receipts and rows are numbered from one and
linked, a row commits to its effects, its envelope (with the salt) and the receipts before it, and
the last line names the ends of both chains. The fields of a row that follow from its envelope are
compared with it.

The search ends at the first bad line: behind it, nothing in the file has a place to stand on.
A file that was cut and given another last line is a sound export of an earlier state, as is one
that was written anew from its first row on: keep `head` elsewhere and expect it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from kernel.model.lite import LITE_INTENT
from kernel.proof.merkle_tree import Frontier, leaf_hash
from kernel.transaction.apply import Rules
from kernel.transaction.rules import rules_of, unknown_version
from kernel.values.canonical import GENESIS_HASH, canonicalize
from kernel.verify.expected import ExpectedHead, mismatch
from kernel.verify.hash_chains import is_canonical, sha256_hex
from kernel.verify.log import effects_hash, expected_kinds, expected_row, keeps_commitment
from kernel.verify.names import receipt_problem, unknown_effect_name, unknown_row_name
from kernel.verify.reading import Document, Rule, load_object, printable, time_us
from kernel.verify.supersession import KEPT_FIELDS

EXPORT_FORMAT = "rotulus-export/1"
LINE_BYTES_MAX = 1 << 26
"""The longest line that an export may have."""

MEMBERS = {
    "header": {"format", "kind"},
    "receipt": {"kind", "after_row", "receipt", "receipt_hash"},
    "row": {"kind", "effects", "envelope", "receipts", "row", "row_hash", "salt"},
    "head": {
        "kind",
        "ec_sequence_number",
        "row_hash",
        "receipt_sequence",
        "receipt_hash",
        "tree_root",
    },
}
"""The members of a line by its kind."""


Progress = Callable[[int], None]
"""Told how many rows were checked, after every line."""


@dataclass(frozen=True, slots=True)
class LineFinding:
    """The first line that contradicts the lines before it, or its own hashes."""

    line: int
    """Counted from one."""

    rule: Rule
    message: str


@dataclass(frozen=True, slots=True)
class ExportVerification:
    """What was checked; counts end where the search did."""

    lines: int
    rows: int
    receipts: int
    head_hash: str
    """Hash of the newest row, 64 zeros where there is none."""

    tree_root: str
    """Root of the tree over the rows, as it is computed from them."""

    finding: LineFinding | None

    @property
    def head(self) -> str:
        """The newest row's sequence and hash, in the form in which they are expected again."""
        return f"{self.rows}:{self.head_hash}"

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.finding is None


class _BadLine(Exception):
    def __init__(self, rule: Rule, message: str) -> None:
        super().__init__(message)
        self.rule: Rule = rule


def verify_export(
    file: BinaryIO,
    *,
    progress: Progress | None = None,
    line_bytes_max: int = LINE_BYTES_MAX,
    expect_head: ExpectedHead | None = None,
) -> ExportVerification:
    """Check an export line by line and name the first bad one; it must hold `expect_head`.

    Memory is bounded by a line, and by the rows of the lite envelopes that are not migrated yet.

    Nothing in the file makes it raise.
    """
    walk = _Walk(expect_head)
    lines, finding = 0, None
    try:
        while line := file.readline(line_bytes_max):
            lines += 1
            walk.line(line)
            if progress is not None:
                progress(walk.rows)
        lines += 1
        walk.finish()
        lines -= 1
    except _BadLine as bad:
        finding = LineFinding(lines, bad.rule, str(bad))
    except Exception as error:  # noqa: BLE001 - what a bad line makes a reader raise has no end
        finding = LineFinding(lines, "unreadable", f"{type(error).__name__}: {error}"[:500])
    root = walk.frontier.root.hex()
    return ExportVerification(lines, walk.rows, walk.receipts, walk.row_hash, root, finding)


class _Walk:
    """Both chains, as far as the file was read."""

    def __init__(self, expected: ExpectedHead | None) -> None:
        self._expected = expected
        self.rows = 0
        self.row_hash = GENESIS_HASH
        self.frontier = Frontier()
        self.receipts = 0
        self._receipt_hash = GENESIS_HASH
        self._committed_us = 0
        self._emitted_us = 0
        self._lite: dict[str, Document] = {}
        """Lite rows that are not superseded yet, by their sequence."""
        self._started = False
        self._ended = False

    def line(self, line: bytes) -> None:
        """Check the next line."""
        if self._ended:
            raise _BadLine("extra", "a line behind the head")
        if not line.endswith(b"\n"):
            raise _BadLine("unreadable", "the line does not end, or is too long")
        document = load_object(line[:-1])
        if document is None:
            raise _BadLine("unreadable", "not a JSON object")
        kind = document.get("kind")
        if not isinstance(kind, str) or document.keys() != MEMBERS.get(kind, set()):
            raise _BadLine("unreadable", f"no kind {printable(kind)} has these members")
        if not is_canonical(line[:-1], document):
            raise _BadLine("not_canonical", "the line is not canonical JSON")
        if (kind == "header") == self._started:
            raise _BadLine("order_broken", "the header is the first line, and no other")
        getattr(self, f"_{kind}")(document)

    def finish(self) -> None:
        """Check that the file ended where an export ends."""
        if not self._ended:
            raise _BadLine("missing", "the file ends without its last line")
        if self._expected is not None and self._expected.ec_sequence_number > self.rows:
            self._check_expected(self._expected.ec_sequence_number, None)

    def _header(self, document: Document) -> None:
        if document["format"] != EXPORT_FORMAT:
            raise _BadLine("field_differs", f"format is {printable(document['format'])}")
        self._started = True
        self._check_expected(0, GENESIS_HASH)

    def _check_expected(self, sequence: int, row_hash: str | None) -> None:
        if self._expected is not None and self._expected.ec_sequence_number == sequence:
            wrong = mismatch(self._expected, row_hash)
            if wrong is not None:
                raise _BadLine(*wrong)

    def _receipt(self, document: Document) -> None:
        if document["after_row"] != str(self.rows):
            raise _BadLine("gap", f"not a receipt after row {self.rows}")
        self._check_receipt(document)

    def _check_receipt(self, document: Document) -> None:
        receipt = document["receipt"]
        receipt_hash = _hash_of(receipt, document["receipt_hash"], "receipt")
        if receipt.get("receipt_sequence") != str(self.receipts + 1):
            raise _BadLine("gap", f"not the receipt after {self.receipts}")
        if receipt.get("prior_receipt_hash") != self._receipt_hash:
            raise _BadLine("link_broken", "does not follow the receipt before it")
        problem = receipt_problem(receipt, _rules_of(receipt))
        if problem is not None:
            raise _BadLine(*problem)
        emitted_us = time_us(receipt.get("emitted_at"))
        if emitted_us is None or emitted_us < self._emitted_us:
            raise _BadLine("order_broken", "emitted_at is not in order")
        self.receipts, self._receipt_hash, self._emitted_us = (
            self.receipts + 1,
            receipt_hash,
            emitted_us,
        )

    def _row(self, document: Document) -> None:
        row = document["row"]
        if not isinstance(document["receipts"], list) or not isinstance(document["effects"], list):
            raise _BadLine("unreadable", "effects and receipts are arrays")
        row_hash = _hash_of(row, document["row_hash"], "row")
        if row.get("ec_sequence_number") != str(self.rows + 1):
            raise _BadLine("gap", f"not the row after {self.rows}")
        if row.get("prior_row_hash") != self.row_hash:
            raise _BadLine("link_broken", "does not follow the row before it")
        committed_us = time_us(row.get("committed_at"))
        if committed_us is None or committed_us <= self._committed_us:
            raise _BadLine("order_broken", "committed_at is not after the row before it")
        for receipt in document["receipts"]:
            if receipt.keys() != {"receipt", "receipt_hash"}:
                raise _BadLine("unreadable", "not the members of a receipt")
            self._check_receipt(receipt)
            prefix = f"receipt:{row.get('operation_id')}:"
            if not str(receipt["receipt"].get("receipt_id")).startswith(prefix):
                raise _BadLine("field_differs", "a receipt of another operation")
        self._check_supersession(row)
        if row.get("receipt_chain_head") != self._receipt_hash:
            raise _BadLine("link_broken", "does not seal the receipts before it")
        _check_commitments(document)
        self._check_expected(self.rows + 1, row_hash)
        self.rows, self.row_hash, self._committed_us = self.rows + 1, row_hash, committed_us
        self.frontier = self.frontier.append(leaf_hash(canonicalize(row)))

    def _check_supersession(self, row: Document) -> None:
        sequence, supersedes = str(self.rows + 1), row.get("supersedes")
        if row.get("semantic_intent") == LITE_INTENT:
            self._lite[sequence] = row
            return
        if supersedes is None:
            return
        lite = self._lite.pop(str(supersedes.get("ec_sequence_number")), None)
        if lite is None:
            message = f"{printable(supersedes)} is no lite row before, or was superseded before"
            raise _BadLine("double_write", message)
        differs = [name for name in KEPT_FIELDS if row.get(name) != lite.get(name)]
        if differs or supersedes.get("operation_id") != lite.get("operation_id"):
            raise _BadLine("field_differs", f"{printable(differs)}: the lite row has another")

    def _head(self, document: Document) -> None:
        expected = {
            "ec_sequence_number": str(self.rows),
            "row_hash": self.row_hash,
            "receipt_sequence": str(self.receipts),
            "receipt_hash": self._receipt_hash,
            "tree_root": self.frontier.root.hex(),
        }
        for name, value in expected.items():
            if document[name] != value:
                message = (
                    f"{name} is {printable(document[name])}, the lines give {printable(value)}"
                )
                raise _BadLine("field_differs", message)
        self._ended = True


def _hash_of(document: object, claimed: object, name: str) -> str:
    if not isinstance(document, dict):
        raise _BadLine("unreadable", f"{name} is not a JSON object")
    actual = sha256_hex(canonicalize(document))
    if actual != claimed:
        raise _BadLine("bytes_changed", f"{name} does not hash to {name}_hash")
    return actual


def _rules_of(document: Document) -> Rules:
    version = document.get("rules_version")
    rules = rules_of(version)
    if rules is None:
        raise _BadLine("rules_unknown", unknown_version(version, "the line"))
    return rules


def _check_commitments(document: Document) -> None:
    row, envelope, effects = document["row"], document["envelope"], document["effects"]
    if row.get("applied_effects_hash") != effects_hash(
        [canonicalize(effect) for effect in effects]
    ):
        raise _BadLine("bytes_changed", "the effects do not hash to applied_effects_hash")
    if envelope is None:
        raise _BadLine("missing", "the envelope is not there")
    salt = bytes.fromhex(document["salt"])
    if salt.hex() != document["salt"]:
        raise _BadLine("not_canonical", "salt is not lower-case hex")
    blob = {
        "blob_ref": row.get("envelope_payload_blob_ref"),
        "salt": salt,
        "content": canonicalize(envelope),
    }
    if not keeps_commitment(blob):
        raise _BadLine("bytes_changed", "salt and envelope do not give the commitment")
    rules = _rules_of(row)
    unknown = [
        unknown_row_name(row, rules),
        *(unknown_effect_name(effect, rules) for effect in effects),
    ]
    if any(unknown):
        raise _BadLine("unknown_name", next(name for name in unknown if name))
    expected = expected_row(row, envelope, rules) | expected_kinds(effects, row)
    if expected != row:
        names = sorted(n for n in expected.keys() | row.keys() if expected.get(n) != row.get(n))
        raise _BadLine("field_differs", f"{', '.join(names)}: not what the envelope gives")
