"""Verifies thoughts and rounds: chains, trees and seals from stored bytes (seed 002, P1).

The state of a session is a fold of the log (level B). Here are the records that it leads to: a
session's chain has as many links as its row says and ends at its head, its tree is that over the
records, node by node, and its seal states both. A round's seal holds the seals of its sessions, and
the genesis of the next one that seal. All is computed level by level and not as the ledger grows
it; the two have the rule of the seed in common and no code.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from kernel.ledger import schema
from kernel.ledger.archive import Archive
from kernel.ledger.store.tables import LARGE_ROWS, Row
from kernel.proof.seals import check_signatures
from kernel.proof.verification import ProofInvalid
from kernel.values.canonical import GENESIS_HASH
from kernel.verify.hash_chains import is_canonical, sha256_hex
from kernel.verify.log import keeps_commitment
from kernel.verify.model_outputs import check_erased
from kernel.verify.reading import Document, Reader, Rule, join_key, load_object, printable
from kernel.verify.thought_segments import check_thought_segments, covering_segment

_FORMAT = "rotulus/thought/v1"


@dataclass(slots=True)
class ThoughtCounts:
    """How many sessions, thoughts, nodes and contents were read."""

    sessions: int = 0
    thoughts: int = 0
    nodes: int = 0
    contents: int = 0
    """Contents that are in the database, to which a thought commits."""

    archived: int = 0
    """Contents that lie in the archive."""

    cold: int = 0
    """Thoughts whose records were read from the archive."""

    unreadable: frozenset[object] = frozenset()
    """Sessions of which a segment cannot be read."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where contents are that are not in the database."""

    erased: frozenset[object]
    """Commitments whose payloads are gone on the record."""

    archive: Archive
    archived: Container[object]
    """Names of what lies in the archive; its files are not read."""


def check_thoughts(reader: Reader, elsewhere: Elsewhere, counts: ThoughtCounts) -> None:
    """Walk every session's chain, build its tree, and name what belongs to no session."""
    counts.unreadable = check_thought_segments(reader, elsewhere.archive)
    for segment in reader.pages(schema.thought_segments, order_by="content_hash"):
        counts.cold += segment["last_sequence"] - segment["first_sequence"] + 1
    for row in reader.pages(schema.audit_sessions, order_by="session_id"):
        counts.sessions += 1
        if row["session_id"] in counts.unreadable:
            continue
        with reader.findings.guard(schema.audit_sessions, row["session_id"]):
            leaves, rfc6962 = _check_chain(reader, row, elsewhere, counts)
            _check_tree(reader, row, leaves, counts)
            _check_session(reader, row, leaves, rfc6962)
    for table, expected in (
        (schema.thought_records, counts.thoughts),
        (schema.merkle_nodes, counts.nodes),
    ):
        if reader.count(table) != expected:
            _name_orphans(reader, table)


def _check_chain(
    reader: Reader, row: Row, elsewhere: Elsewhere, counts: ThoughtCounts
) -> tuple[list[bytes], list[bytes]]:
    """Walk along a session and return the leaves of its two trees."""
    session_id, head = row["session_id"], GENESIS_HASH
    leaves: list[bytes] = []
    rfc6962: list[bytes] = []
    where = {"session_id": session_id}
    for thought in reader.pages(schema.thought_records, where, page_rows=LARGE_ROWS):
        counts.thoughts += 1
        key = join_key(session_id, thought["thought_sequence"])
        with reader.findings.guard(schema.thought_records, key):
            _check_thought(reader, key, thought, len(leaves) + 1, head)
            _check_content(reader, thought, elsewhere, counts)
        content = thought["record_bytes"]
        content = content if isinstance(content, bytes) else b""
        head = sha256_hex(content)
        leaves.append(bytes.fromhex(head))
        rfc6962.append(sha256(b"\x00" + content).digest())
    if (len(leaves), head) != (row["thought_count"], row["zeta_head"]):
        message = f"{len(leaves)} thoughts lead to {head}, the session's row says otherwise"
        key = join_key(session_id, len(leaves) + 1)
        rule: Rule = "missing" if len(leaves) < (row["thought_count"] or 0) else "link_broken"
        reader.findings.add(schema.thought_records, key, rule, message)
    return leaves, rfc6962


def _check_thought(reader: Reader, key: str, row: Row, sequence: int, head: str) -> None:
    findings, document = reader.findings, load_object(row["record_bytes"])
    if row["thought_sequence"] != sequence:
        findings.add(schema.thought_records, key, "gap", f"no thought {sequence}")
    if document is None or not is_canonical(row["record_bytes"], document):
        findings.add(schema.thought_records, key, "unreadable", "the record is not canonical JSON")
        return
    if document.get("prev_hash") != head:
        message = "it does not follow the thought before it"
        findings.add(schema.thought_records, key, "link_broken", message)
        return
    expected = {
        "session_id": row["session_id"],
        "sequence": row["thought_sequence"],
        "thought_id": row["thought_id"],
        "format": _FORMAT,
    }
    for name, value in expected.items():
        if document.get(name) != value:
            message = (
                f"{name} is {printable(value)}, the record says {printable(document.get(name))}"
            )
            findings.add(schema.thought_records, key, "column_differs", message)
            return
    if row["content_hash"] != sha256_hex(row["record_bytes"]):
        message = "content_hash is not that of the record"
        findings.add(schema.thought_records, key, "column_differs", message)
    _check_place(reader, key, row, document)


def _check_place(reader: Reader, key: str, row: Row, document: Document) -> None:
    """Check that the operation of which a thought says so is the one that recorded it."""
    logged = reader.get(schema.kernel_event_log, row["ec_sequence_number"])
    blob = None if logged is None else reader.get(schema.blobs, logged["envelope_payload_blob_ref"])
    envelope = None if blob is None else load_object(blob["content"])
    effects = (envelope or {}).get("primitive_effects") or [{}]
    payload = effects[0].get("payload") or {}
    names = ("session_id", "thought_id", "thought_type", "content_commitment")
    stated = {name: payload.get(name) for name in names}
    if stated != {name: document.get(name) for name in names}:
        message = f"row {printable(row['ec_sequence_number'])} of the log records another thought"
        reader.findings.add(schema.thought_records, key, "column_differs", message)
    elif logged is not None and logged["committed_at"] != document.get("recorded_at"):
        message = "recorded_at is not when its operation was committed"
        reader.findings.add(schema.thought_records, key, "field_differs", message)


def _check_content(reader: Reader, row: Row, elsewhere: Elsewhere, counts: ThoughtCounts) -> None:
    commitment = (load_object(row["record_bytes"]) or {}).get("content_commitment")
    blob = reader.get(schema.blobs, commitment)
    if blob is None:
        is_erased, is_archived = commitment in elsewhere.erased, commitment in elsewhere.archived
        counts.archived += is_archived
        if is_erased and is_archived:
            message = "it was erased on the record, and lies in the archive; erase it again"
            reader.findings.add(schema.blobs, commitment, "extra", message)
        elif not is_erased and not is_archived:
            message = f"the content of thought {printable(row['thought_id'])} is not there"
            reader.findings.add(schema.blobs, commitment, "missing", message)
        return
    counts.contents += 1
    check_erased(reader, commitment, elsewhere.erased)
    if not keeps_commitment(blob):
        message = "salt and content do not give the commitment"
        reader.findings.add(schema.blobs, commitment, "bytes_changed", message)


def _check_tree(reader: Reader, row: Row, leaves: list[bytes], counts: ThoughtCounts) -> None:
    """Compare the nodes that are stored with those of the tree over the leaves."""
    session_id, table = row["session_id"], schema.merkle_nodes
    expected = _nodes(leaves, whole=row["state"] != "open")
    index = -1
    where = {"session_id": session_id}
    for stored in reader.pages(table, where, page_rows=LARGE_ROWS):
        counts.nodes += 1
        index += 1
        key = join_key(session_id, stored["node_index"])
        if stored["node_index"] != index:
            reader.findings.add(table, join_key(session_id, index), "gap", f"no node {index}")
            index = stored["node_index"]
        if not 0 <= index < len(expected):
            reader.findings.add(table, key, "extra", "no thoughts have this node")
        elif stored != {"session_id": session_id, "node_index": index, **expected[index]}:
            message = "the node is not that over the thoughts"
            reader.findings.add(table, key, "state_differs", message)
    if index + 1 < len(expected):
        key = join_key(session_id, index + 1)
        reader.findings.add(table, key, "missing", "the thoughts have this node")


def _nodes(leaves: list[bytes], *, whole: bool) -> list[Document]:
    """Return the rows of a tree in the order of their indexes, computed level by level."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        level = levels[-1] + levels[-1][-1:] * (len(levels[-1]) % 2)
        pairs = zip(level[::2], level[1::2], strict=True)
        levels.append([sha256(left + right).digest() for left, right in pairs])
    complete: list[tuple[int, int, int, bytes]] = []
    waiting: list[tuple[int, int, int, bytes]] = []
    for height, hashes in enumerate(levels):
        for place, node in enumerate(hashes):
            end = (place + 1) << height
            entry = (end, height, place, node)
            (complete if end <= len(leaves) else waiting).append(entry)
    ordered = sorted(complete) + (sorted(waiting, key=lambda entry: entry[1]) if whole else [])
    indexes = {(level, place): index for index, (_, level, place, _) in enumerate(ordered)}
    return [
        {"level": level, "hash": node} | _children(indexes, levels, level, place)
        for _, level, place, node in ordered
    ]


def _children(
    indexes: dict[tuple[int, int], int], levels: list[list[bytes]], level: int, place: int
) -> Document:
    if level == 0:
        return {"left_child_index": None, "right_child_index": None}
    right = min(2 * place + 1, len(levels[level - 1]) - 1)
    return {
        "left_child_index": indexes[level - 1, 2 * place],
        "right_child_index": indexes[level - 1, right],
    }


def _check_session(reader: Reader, row: Row, leaves: list[bytes], rfc6962: list[bytes]) -> None:
    """Check the seal of a session against its thoughts, and who has signed it."""
    if row["seal_bytes"] is None:
        return
    seal = load_object(row["seal_bytes"]) or {}
    expected = {
        "session_id": row["session_id"],
        "leaf_count": len(leaves),
        "first_sequence": 1,
        "last_sequence": len(leaves),
        "zeta_head": leaves[-1].hex() if leaves else GENESIS_HASH,
        "eta_root": _last(_nodes(leaves, whole=True)),
        "rfc6962_root": _rfc6962_root(rfc6962).hex(),
        "round_number": row["round_number"],
    }
    for name, value in expected.items():
        if seal.get(name) != value:
            message = (
                f"the seal says {name} {printable(seal.get(name))}, the thoughts {printable(value)}"
            )
            key = row["session_id"]
            reader.findings.add(schema.audit_sessions, key, "field_differs", message)
            return
    _check_signed(reader, schema.audit_sessions, row["session_id"], seal, row["signatures"])


def check_rounds(reader: Reader) -> None:
    """Walk the chain of rounds: each genesis embeds the seal before it, each seal its sessions."""
    before: Document | None = None
    for number, row in enumerate(reader.pages(schema.rounds), 1):
        with reader.findings.guard(schema.rounds, row["round_number"]):
            before = _check_round(reader, row, number, before)


def _check_round(reader: Reader, row: Row, number: int, before: Document | None) -> Document | None:
    key, findings = row["round_number"], reader.findings
    genesis = load_object(row["genesis_bytes"]) or {}
    parent = GENESIS_HASH if before is None else sha256_hex(before["bytes"])
    expected = {
        "round_number": number,
        "parent_seal_hash": parent,
        "parents": [] if before is None else before["seal"].get("sessions"),
    }
    if any(genesis.get(name) != value for name, value in expected.items()):
        message = "its genesis does not embed the seal of the round before it"
        findings.add(schema.rounds, key, "link_broken", message)
    if row["seal_bytes"] is None:
        return None
    seal = load_object(row["seal_bytes"]) or {}
    sessions = list(_sessions(reader, number))
    sealed = {
        "round_number": number,
        "genesis_hash": sha256_hex(row["genesis_bytes"]),
        "sessions": sessions,
    }
    if any(seal.get(name) != value for name, value in sealed.items()):
        message = "its seal does not hold the sessions that were finalized in it"
        findings.add(schema.rounds, key, "link_broken", message)
    _check_signed(reader, schema.rounds, key, seal, row["signatures"])
    return {"bytes": row["seal_bytes"], "seal": seal}


def _sessions(reader: Reader, number: int) -> Iterator[Document]:
    where = {"round_number": number}
    for row in reader.pages(schema.audit_sessions, where, order_by="seal_sequence"):
        seal = load_object(row["seal_bytes"]) or {}
        names = ("session_id", "leaf_count", "eta_root", "rfc6962_root")
        stated = {name: seal.get(name) for name in names}
        yield stated | {"seal_sequence": str(row["seal_sequence"])}


def _check_signed(
    reader: Reader, table: Any, key: object, seal: Document, signatures: bytes | None
) -> None:
    listed = (load_object(b'{"signatures":%s}' % (signatures or b"null")) or {}).get("signatures")
    try:
        check_signatures(seal, listed or [])
    except ProofInvalid as error:
        reader.findings.add(table, key, "field_differs", str(error))


def _rfc6962_root(hashes: list[bytes]) -> bytes:
    if not hashes:
        return sha256(b"").digest()
    while len(hashes) > 1:
        alone = hashes[-1:] if len(hashes) % 2 else []
        pairs = zip(hashes[::2], hashes[1::2], strict=False)
        hashes = [sha256(b"\x01" + left + right).digest() for left, right in pairs] + alone
    return hashes[0]


def _last(nodes: list[Document]) -> str | None:
    return nodes[-1]["hash"].hex() if nodes else None


def _name_orphans(reader: Reader, table: Any) -> None:
    place = list(table.primary_key.columns)[-1].name
    for row in reader.pages(table, order_by=place):
        key = join_key(row["session_id"], row[place])
        if reader.get(schema.audit_sessions, row["session_id"]) is None:
            reader.findings.add(table, key, "extra", "its session is not there")
        elif covering_segment(reader, row, place):
            reader.findings.add(table, key, "extra", "it lies in the archive")
