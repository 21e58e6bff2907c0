"""Verifies the log: every field of every row is computed again from what the row commits to.

A row commits to an envelope (by a salted commitment), to the effects that were applied (by the hash
of their bytes) and to the receipts before it (by their chain's head). The rest is taken from the
envelope and the effects, so nothing in it has to be believed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kernel.ledger import schema
from kernel.ledger.store.tables import Row, TableQuery
from kernel.model.lite import LITE_INTENT
from kernel.transaction.apply import Rules
from kernel.values.canonical import GENESIS_HASH, canonicalize
from kernel.verify.hash_chains import LOG, Chain, is_emitted, sha256_hex
from kernel.verify.names import row_rules, unknown_effect_name
from kernel.verify.reading import Document, Reader, join_key, load_object, parts, printable, time_us
from kernel.verify.supersession import check_supersession

EFFECT_NAMES = ("effect_id", "effect_kind", "canonical_kind", "store", "record_key")
EFFECT_HASHES = ("pre_image_hash", "post_image_hash")

_COMMITMENT_DOMAIN = b"rotulus/payload/v1\x00"
_SALT_BYTES = 32

_SEALED = re.compile(rb'"receipt_chain_head":"([0-9a-f]{64})"').search

_JUDGED_ELSEWHERE = (
    "prior_row_hash",
    "ec_sequence_number",
    "envelope_payload_blob_ref",
    "committed_at",
    "applied_effects_hash",
    "receipt_chain_head",
    "rules_version",
)
"""Fields that the chain, the order, a hash or the version of the rules decides."""

KNOWN_MAX = 16_384
"""Ids of the newest rows that are kept in memory; older ones are looked up."""

_LOG = schema.kernel_event_log


@dataclass(slots=True)
class Effects:
    """The applied effects of one row as they are stored."""

    contents: list[bytes] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    count: int = 0
    sound: bool = True


@dataclass(frozen=True, slots=True)
class LogState:
    """Where a walk along the log stands, and what it counted."""

    sequence: int
    row_hash: str
    committed_at_us: int
    receipt_hash: object
    """Hash of the receipt that the newest row seals."""
    receipt_position: int
    rows: int
    blobs: int
    effects: int
    emitted: int
    """How many durable receipts the operations of the log emitted."""
    causes: int
    """How many causes the rows of the log name."""

    def goes_on(self, before: "LogState") -> bool:
        """Tell whether a walk that begins here goes on where another one ended."""
        return all(getattr(self, name) == getattr(before, name) for name in _PLACE)

    def add_counts(self, before: "LogState") -> "LogState":
        """Return this place, with what was counted on the way to the one before as well."""
        counts = {name: getattr(self, name) + getattr(before, name) for name in _COUNTS}
        return replace(self, **counts)


_PLACE = ("sequence", "row_hash", "committed_at_us", "receipt_hash", "receipt_position")
_COUNTS = ("rows", "blobs", "effects", "emitted", "causes")


class LogCheck:
    """One walk along the log and everything that its rows commit to."""

    def __init__(self, reader: Reader) -> None:
        self.chain = Chain(LOG, reader.findings)
        self.blobs = 0
        self.effects = 0
        self.emitted = 0
        """How many durable receipts the operations of the log emitted."""
        self.causes = 0
        """How many causes the rows of the log name."""
        self.receipt_hash: object = GENESIS_HASH
        """Hash of the receipt that the newest row seals."""
        self.committed_at_us = 0
        self._receipt_position = 0
        self._reader = reader
        self._causality = Causality(reader)

    @property
    def receipt_position(self) -> int:
        """The receipt that the newest row seals."""
        return self._receipt_position

    @property
    def state(self) -> LogState:
        """Where this walk stands."""
        return LogState(
            self.chain.last,
            self.chain.tail_hash,
            self.committed_at_us,
            self.receipt_hash,
            self._receipt_position,
            self.chain.rows,
            self.blobs,
            self.effects,
            self.emitted,
            self.causes,
        )

    def take_over(self, state: LogState) -> None:
        """Stand where others have walked to who found nothing."""
        self.chain.go_on_after(state.sequence, state.row_hash)
        self.chain.rows = state.rows
        self.committed_at_us = state.committed_at_us
        self.receipt_hash, self._receipt_position = state.receipt_hash, state.receipt_position
        self.blobs, self.effects = state.blobs, state.effects
        self.emitted, self.causes = state.emitted, state.causes

    def go_on_after(self, row: Row) -> None:
        """Begin behind a row that was checked before, instead of at the first."""
        self.chain.go_on_after(row["ec_sequence_number"], row["row_hash"])
        document = load_object(row["row_bytes"]) or {}
        self.committed_at_us = time_us(document.get("committed_at")) or 0
        sealed = document.get("receipt_chain_head")
        receipts = self._reader.scan(TableQuery(schema.receipts, {"receipt_hash": sealed}, limit=1))
        if receipts:
            self.receipt_hash, self._receipt_position = sealed, receipts[0]["receipt_sequence"]

    def run(self, progress: Callable[[], None]) -> None:
        """Check every row in sequence; `progress` is told of each."""
        for part in parts(self._reader.pages(schema.kernel_event_log)):
            self.check(part, progress)

    def check(self, rows: list[Row], progress: Callable[[], None]) -> None:
        """Check the next rows of the sequence; `progress` is told of each."""
        snapshot = self._reader
        self._reader = _around(snapshot, rows)
        for row in rows:
            snapshot.findings.of_row = row["ec_sequence_number"]
            with snapshot.findings.guard(schema.kernel_event_log, row["ec_sequence_number"]):
                self._row(row)
            progress()
        snapshot.findings.of_row = None
        self._reader = snapshot

    def _row(self, row: Row) -> None:
        sequence = row["ec_sequence_number"]
        document = self.chain.step(row)
        effects = read_effects(self._reader, sequence, (document or {}).get("committed_at"))
        self.effects += effects.count
        if document is None:
            return
        check_supersession(self._reader, row, document)
        self._causality.check(sequence, document)
        self._check_causes(sequence, document)
        self._check_order(sequence, document)
        if effects.sound and document.get("applied_effects_hash") != effects_hash(effects.contents):
            self._reader.findings.add(
                schema.applied_effects,
                sequence,
                "bytes_changed",
                "the effects do not hash to the applied_effects_hash of their row",
            )
            effects.sound = False
        rules = row_rules(self._reader, sequence, document)
        envelope = self._envelope(document)
        if rules is None:
            return
        for ordinal, effect in enumerate(effects.documents):
            message = unknown_effect_name(effect, rules)
            if message is not None:
                key = join_key(sequence, ordinal)
                self._reader.findings.add(schema.applied_effects, key, "unknown_name", message)
        if envelope is not None:
            self._check_fields(sequence, document, envelope, effects, rules)

    def _check_causes(self, sequence: int, document: Document) -> None:
        """Check that the row is found from each operation that it names among its causes."""
        for name in dict.fromkeys(document.get("causal_parent_operation_ids") or ()):
            self.causes += 1
            if self._reader.get(schema.causal_parents, name, sequence) is None:
                message = f"row {sequence} names {printable(name)} among its causes"
                key = join_key(name, sequence)
                self._reader.findings.add(schema.causal_parents, key, "missing", message)

    def _check_order(self, sequence: int, document: Document) -> None:
        committed_at_us = time_us(document.get("committed_at"))
        if committed_at_us is None or committed_at_us <= self.committed_at_us:
            message = (
                f"committed_at {printable(document.get('committed_at'))} is not after the last"
            )
            self._reader.findings.add(schema.kernel_event_log, sequence, "order_broken", message)
        self.committed_at_us = committed_at_us or self.committed_at_us
        before, sealed = self._receipt_position, document.get("receipt_chain_head")
        if sealed != self.receipt_hash:
            receipts = self._reader.scan(
                TableQuery(schema.receipts, {"receipt_hash": sealed}, limit=1)
            )
            if not receipts:
                message = "no receipt has the hash that receipt_chain_head names"
                self._reader.findings.add(schema.kernel_event_log, sequence, "link_broken", message)
                return
            self._receipt_position = receipts[0]["receipt_sequence"]
            self.receipt_hash = sealed
            if self._receipt_position < before:
                message = f"seals receipt {self._receipt_position}, the row before seals {before}"
                self._reader.findings.add(
                    schema.kernel_event_log, sequence, "order_broken", message
                )
        if document.get("semantic_intent") == LITE_INTENT:
            # What its operation emitted is sealed by the row that took its place.
            return
        for row in emitted_receipts(self._reader, document.get("operation_id")):
            self.emitted += 1
            if not before < row["receipt_sequence"] <= self._receipt_position:
                message = f"emitted by row {sequence}, which does not seal it"
                self._reader.findings.add(
                    schema.receipts, row["receipt_sequence"], "order_broken", message
                )

    def _envelope(self, document: Document) -> Document | None:
        blob_ref = document.get("envelope_payload_blob_ref")
        row = self._reader.get(schema.blobs, blob_ref)
        if row is None:
            message = f"the envelope of {printable(document.get('operation_id'))} is not there"
            self._reader.findings.add(schema.blobs, blob_ref, "missing", message)
            return None
        self.blobs += 1
        if not keeps_commitment(row):
            message = "salt and content do not give the commitment"
            self._reader.findings.add(schema.blobs, blob_ref, "bytes_changed", message)
            return None
        envelope = load_object(row["content"])
        if envelope is None:
            message = "the envelope is not a JSON object"
            self._reader.findings.add(schema.blobs, blob_ref, "unreadable", message)
        return envelope

    def _check_fields(
        self,
        sequence: int,
        document: Document,
        envelope: Document,
        effects: Effects,
        rules: Rules,
    ) -> None:
        expected = expected_row(document, envelope, rules)
        expected |= expected_kinds(effects.documents if effects.sound else None, document)
        for name in sorted(expected.keys() | document.keys()):
            if name not in expected or name not in document or expected[name] != document[name]:
                message = (
                    f"{name} is {printable(document.get(name))}, "
                    f"the envelope and its effects give {printable(expected.get(name))}"
                )
                self._reader.findings.add(
                    schema.kernel_event_log, sequence, "field_differs", message
                )
                return


def _around(reader: Reader, rows: list[Row]) -> Reader:
    """Read what belongs to some rows of the log, in one go."""
    operations = [row["operation_id"] for row in rows]
    return reader.ahead(
        (schema.applied_effects, "ec_sequence_number", [row["ec_sequence_number"] for row in rows]),
        (schema.blobs, "blob_ref", [row["envelope_payload_blob_ref"] for row in rows]),
        (schema.kernel_event_log, "operation_id", operations),
        (schema.receipts, "operation_id", operations),
        (schema.receipts, "receipt_hash", _sealed_hashes(rows)),
    )


def _sealed_hashes(rows: list[Row]) -> set[str]:
    """Return the hashes of receipts that rows seal, as far as one finds them in the bytes."""
    return {
        match[1].decode()
        for row in rows
        if isinstance(row["row_bytes"], bytes) and (match := _SEALED(row["row_bytes"]))
    }


def read_effects(reader: Reader, sequence: int, applied_at: object) -> Effects:
    """Read the applied effects of a row, noting what is wrong with them."""
    effects = Effects()
    where = {"ec_sequence_number": sequence}
    for row in reader.pages(schema.applied_effects, where):
        key = join_key(sequence, row["ordinal"])
        with reader.findings.guard(schema.applied_effects, key):
            if row["ordinal"] != effects.count:
                message = f"no effect {effects.count}"
                key = join_key(sequence, effects.count)
                reader.findings.add(schema.applied_effects, key, "gap", message)
                effects.sound = False
            effects.count += 1
            _read_effect(row, applied_at, effects)
    return effects


def _read_effect(row: Row, applied_at: object, effects: Effects) -> None:
    """Make the document that was hashed of the columns; what they cannot be made of is unsound."""
    try:
        document = {
            **{name: row[name] for name in EFFECT_NAMES},
            **{name: row[name].hex() for name in EFFECT_HASHES},
            "applied_at": applied_at,
        }
        effects.contents.append(canonicalize(document))
    except Exception:
        effects.sound = False
        raise
    effects.documents.append(document)


def emitted_receipts(reader: Reader, operation_id: object) -> list[Row]:
    """Return the durable receipts that an operation on the log emitted, in order."""
    rows = reader.scan(TableQuery(schema.receipts, {"operation_id": operation_id}))
    return [row for row in rows if is_emitted(row)]


def keeps_commitment(blob: Row) -> bool:
    """Tell whether a blob's salt and content give the commitment under which it is kept."""
    salt, content = blob["salt"], blob["content"]
    if not isinstance(salt, bytes) or not isinstance(content, bytes):
        return False
    if len(salt) != _SALT_BYTES:  # else bytes of the one could be taken for bytes of the other
        return False
    framed = b"".join((_COMMITMENT_DOMAIN, salt, len(content).to_bytes(8, "big"), content))
    return bool(sha256_hex(framed) == blob["blob_ref"])


def effects_hash(effects: list[bytes]) -> str:
    """Return the hash by which a row commits to the stored bytes of its effects."""
    return sha256_hex(b"[" + b",".join(effects) + b"]")


def expected_row(document: Document, envelope: Document, rules: Rules) -> Document:
    """Return what a row says by its envelope, taking over what a chain or a hash decides."""
    judged = {name: document[name] for name in _JUDGED_ELSEWHERE if name in document}
    return judged | rules.row_of_envelope(envelope)


def expected_kinds(effects: list[Document] | None, document: Document) -> Document:
    """Return the kinds that a row says by its effects; its own where these are not known."""
    kinds = {"effect_kind_set": "effect_kind", "canonical_effect_kind_set": "canonical_kind"}
    if effects is None:
        return {name: document.get(name) for name in kinds}
    return {name: sorted({effect[kind] for effect in effects}) for name, kind in kinds.items()}


class Causality:
    """Checks in one walk along the log that every cause is on an earlier row (§2.7).

    A lite row repeats what a log of version 1.5 says, and what takes its place repeats it again:
    causes that such a log does not have, or has later, are its own.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[str, None] = {}

    def check(self, sequence: int, document: Document) -> None:
        """Check the causes of the next row."""
        is_migrated = "supersedes" in document or document.get("semantic_intent") == LITE_INTENT
        parents = () if is_migrated else document.get("causal_parent_operation_ids", ())
        for parent in parents:
            if parent not in self._known and not self._stands_before(parent, sequence):
                message = f"is caused by {printable(parent)}, which is on no earlier row"
                self._reader.findings.add(_LOG, sequence, "link_broken", message)
                break
        self._known[document["operation_id"]] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    def _stands_before(self, operation_id: object, sequence: int) -> bool:
        rows = self._reader.scan(TableQuery(_LOG, {"operation_id": operation_id}))
        return any(row["ec_sequence_number"] < sequence for row in rows)
