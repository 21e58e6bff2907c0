"""Folds the operations of thoughts and rounds into their tables (seed 002).

An operation states what nobody can compute: which thoughts, when a seal was made, who signed it.
Everything else that a seal says is computed from the state and held against what is stated, so a
seal on the log is true of the thoughts before it (decision kernel/0371). A thought costs its own
row, on average two nodes of the tree, and the session's row; nothing is read that grows with the
session.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import orjson
from pydantic import BaseModel

from kernel.algebra.verbs import (
    AUDIT_SESSION_END,
    AUDIT_SESSION_START,
    AUDIT_VERIFY_CHAIN,
    MERKLE_FINALIZE,
    ROUND_OPEN,
    ROUND_SEAL,
    THOUGHT_RECORD,
)
from kernel.ledger import schema
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row, Tables
from kernel.model.receipt import sole_receipt
from kernel.model.thought_receipts import (
    ROUND_SESSIONS_MAX,
    AuditSessionEnded,
    AuditSessionStarted,
    RoundOpened,
    RoundSealed,
    SessionSealed,
    ThoughtChainVerified,
    ThoughtRecorded,
)
from kernel.proof.eta_tree import ETA_ALGORITHM, EtaNode, append_eta_leaf, eta_closing
from kernel.proof.merkle_tree import Frontier, leaf_hash
from kernel.proof.rounds import round_genesis, round_seal
from kernel.proof.seals import SESSION_SEAL, check_signatures, seal_bytes
from kernel.proof.thought_chain import ThoughtRecord, content_hash
from kernel.proof.verification import ProofInvalid
from kernel.records.operation_steps import AppliedOperation, Step, Steps
from kernel.records.record import Operation
from kernel.thoughts.sessions import (
    ThoughtRefused,
    check_final,
    check_room,
    check_state,
    newest_round,
    open_round,
    session_of,
    sessions_of_round,
    thought_of_id,
)
from kernel.values.canonical import GENESIS_HASH, canonicalize
from kernel.values.errors import EffectInapplicable

Document = dict[str, Any]

RECEIPTS: Mapping[str, tuple[str, type[BaseModel]]] = MappingProxyType(
    {
        AUDIT_SESSION_START: ("audit_session_started", AuditSessionStarted),
        THOUGHT_RECORD: ("thought_recorded", ThoughtRecorded),
        AUDIT_VERIFY_CHAIN: ("thought_chain_verified", ThoughtChainVerified),
        MERKLE_FINALIZE: ("session_sealed", SessionSealed),
        AUDIT_SESSION_END: ("audit_session_ended", AuditSessionEnded),
        ROUND_OPEN: ("round_opened", RoundOpened),
        ROUND_SEAL: ("round_sealed", RoundSealed),
    }
)
"""The one receipt that an operation of each verb states."""


def _start(operation: Operation, stated: AuditSessionStarted) -> None:
    tables = operation.transaction.tables
    if tables.get(schema.audit_sessions, stated.session_id) is not None:
        message = f"{stated.session_id} has begun already"
        raise ThoughtRefused(message, code="audit_session_exists")
    tables.put(
        schema.audit_sessions,
        {
            "session_id": stated.session_id,
            "task_id": stated.task_id,
            "state": "open",
            "thought_count": 0,
            "zeta_head": GENESIS_HASH,
            "verified_count": 0,
            "eta_frontier": b"",
            "rfc6962_frontier": b"",
            **dict.fromkeys(("round_number", "seal_sequence", "seal_bytes", "signatures")),
        },
    )


def _record(operation: Operation, stated: ThoughtRecorded) -> None:
    transaction, tables = operation.transaction, operation.transaction.tables
    row = session_of(transaction, stated.session_id)
    check_room(row)
    if thought_of_id(transaction, stated.session_id, stated.thought_id) is not None:
        raise ThoughtRefused(f"{stated.thought_id} is on the record", code="thought_conflict")
    before, count = row["thought_count"], row["thought_count"] + 1
    content = ThoughtRecord(
        sequence=count,
        recorded_at=operation.applied_at,
        prev_hash=row["zeta_head"],
        **stated.model_dump(),
    ).to_bytes()
    head = content_hash(content)
    tables.append(
        schema.thought_records,
        {
            "session_id": stated.session_id,
            "thought_sequence": count,
            "thought_id": stated.thought_id,
            "content_hash": head,
            "record_bytes": content,
            "ec_sequence_number": operation.sequence,
        },
    )
    eta, nodes = append_eta_leaf(
        Frontier.of_bytes(before, row["eta_frontier"]), bytes.fromhex(head)
    )
    rfc6962 = Frontier.of_bytes(before, row["rfc6962_frontier"]).append(leaf_hash(content))
    _add_nodes(tables, stated.session_id, nodes)
    tables.put(
        schema.audit_sessions,
        row
        | {
            "thought_count": count,
            "zeta_head": head,
            "eta_frontier": eta.to_bytes(),
            "rfc6962_frontier": rfc6962.to_bytes(),
        },
    )


def _note_verified(operation: Operation, stated: ThoughtChainVerified) -> None:
    transaction = operation.transaction
    row = session_of(transaction, stated.session_id)
    check_state(row, "open")
    thought = transaction.tables.get(
        schema.thought_records, stated.session_id, stated.thought_count
    )
    if thought is None or thought["content_hash"] != stated.zeta_head:
        message = f"thought {stated.thought_count} is not the one that was read"
        raise ThoughtRefused(message, code="thought_unknown")
    covered = max(row["verified_count"], stated.thought_count)
    transaction.tables.put(schema.audit_sessions, row | {"verified_count": covered})


def _finalize(operation: Operation, stated: SessionSealed) -> None:
    transaction, tables = operation.transaction, operation.transaction.tables
    row = session_of(transaction, stated.session_id)
    check_final(transaction, row)
    of_round = open_round(transaction)
    if of_round is None:
        raise ThoughtRefused("no round is open", code="round_not_open")
    document = stated.model_dump()
    seal = session_seal(row, of_round["round_number"], stated.sealed_at)
    _check_stated(document, seal)
    closing = eta_closing(Frontier.of_bytes(row["thought_count"], row["eta_frontier"]))
    _add_nodes(tables, stated.session_id, closing)
    tables.put(
        schema.audit_sessions,
        row
        | {
            "state": "finalized",
            "round_number": of_round["round_number"],
            "seal_sequence": operation.sequence,
            "seal_bytes": seal_bytes(seal),
            "signatures": canonicalize(document["signatures"]),
        },
    )
    count = of_round["session_count"] + 1
    if count > ROUND_SESSIONS_MAX:
        raise ThoughtRefused("the round is full", code="round_full")
    tables.put(schema.rounds, of_round | {"session_count": count})


def _end(operation: Operation, stated: AuditSessionEnded) -> None:
    row = session_of(operation.transaction, stated.session_id)
    check_state(row, "finalized")
    operation.transaction.tables.put(schema.audit_sessions, row | {"state": "ended"})


def _open_round(operation: Operation, stated: RoundOpened) -> None:
    transaction = operation.transaction
    genesis = next_genesis(transaction, stated.opened_at)
    _check_stated(stated.model_dump(), genesis)
    transaction.tables.put(
        schema.rounds,
        {
            "round_number": genesis["round_number"],
            "genesis_bytes": canonicalize(genesis),
            "opened_sequence": operation.sequence,
            "opened_at_us": transaction.head_now.committed_at_us,
            "session_count": 0,
            **dict.fromkeys(("seal_bytes", "signatures", "sealed_sequence")),
        },
    )


def _seal_round(operation: Operation, stated: RoundSealed) -> None:
    transaction, document = operation.transaction, stated.model_dump()
    row = open_round(transaction)
    seal = next_round_seal(transaction, stated.sealed_at, stated.sealed_by)
    _check_stated(document, seal)
    transaction.tables.put(
        schema.rounds,
        {
            **(row or {}),
            "seal_bytes": seal_bytes(seal),
            "signatures": canonicalize(document["signatures"]),
            "sealed_sequence": operation.sequence,
        },
    )


def session_seal(row: Row, round_number: int, sealed_at: str) -> Document:
    """Return the seal of a session as it stands, without signatures."""
    count = row["thought_count"]
    frontier = Frontier.of_bytes(count, row["eta_frontier"])
    closing = eta_closing(frontier)
    eta_root = closing[-1].hash if closing else frontier.roots[0]
    return {
        "format": SESSION_SEAL,
        "algorithm": ETA_ALGORITHM,
        "session_id": row["session_id"],
        "task_id": row["task_id"],
        "leaf_count": count,
        "first_sequence": 1,
        "last_sequence": count,
        "zeta_head": row["zeta_head"],
        "eta_root": eta_root.hex(),
        "rfc6962_root": Frontier.of_bytes(count, row["rfc6962_frontier"]).root.hex(),
        "round_number": round_number,
        "sealed_at": sealed_at,
    }


def next_genesis(view: LedgerView, opened_at: str) -> Document:
    """Return the genesis of the round that would be opened now.

    Raises:
        ThoughtRefused: `round_is_open`.
    """
    newest = newest_round(view)
    if newest is None:
        return round_genesis(None, opened_at)
    if newest["seal_bytes"] is None:
        message = f"round {newest['round_number']} is open"
        raise ThoughtRefused(message, code="round_is_open")
    return round_genesis(orjson.loads(newest["seal_bytes"]), opened_at)


def next_round_seal(view: LedgerView, sealed_at: str, sealed_by: str) -> Document:
    """Return the seal of the open round as it stands, without signatures.

    Raises:
        ThoughtRefused: `round_not_open`; `round_empty` where no session was finalized in it.
    """
    row = open_round(view)
    if row is None:
        raise ThoughtRefused("no round is open", code="round_not_open")
    if not row["session_count"]:
        message = f"no session was finalized in round {row['round_number']}"
        raise ThoughtRefused(message, code="round_empty")
    sessions = sessions_of_round(view, row["round_number"], limit=ROUND_SESSIONS_MAX)
    return round_seal(orjson.loads(row["genesis_bytes"]), sessions, sealed_at, sealed_by)


def _check_stated(stated: Document, computed: Document) -> None:
    """Hold what an operation states against what the record gives, and its signatures to both."""
    signatures = stated.pop("signatures", None)
    if stated != computed:
        names = ", ".join(name for name in computed if stated.get(name) != computed[name])
        raise ThoughtRefused(f"the record gives another {names}", code="seal_differs")
    if signatures is not None:
        stated["signatures"] = signatures
        try:
            check_signatures(computed, signatures)
        except ProofInvalid as error:
            raise ThoughtRefused(str(error), code="seal_signature_invalid") from None


def _add_nodes(tables: Tables, session_id: str, nodes: list[EtaNode]) -> None:
    for node in nodes:
        tables.append(
            schema.merkle_nodes,
            {
                "session_id": session_id,
                "node_index": node.index,
                "level": node.level,
                "hash": node.hash,
                "left_child_index": node.left_child,
                "right_child_index": node.right_child,
            },
        )


_APPLIED: Mapping[str, Callable[[Operation, Any], None]] = MappingProxyType(
    {
        AUDIT_SESSION_START: _start,
        THOUGHT_RECORD: _record,
        AUDIT_VERIFY_CHAIN: _note_verified,
        MERKLE_FINALIZE: _finalize,
        AUDIT_SESSION_END: _end,
        ROUND_OPEN: _open_round,
        ROUND_SEAL: _seal_round,
    }
)


def _recorder(verb: str) -> Step:
    kind, model = RECEIPTS[verb]

    def record(operation: AppliedOperation) -> None:
        try:
            _APPLIED[verb](operation, sole_receipt(operation.envelope, kind, model))
        except ThoughtRefused as refused:
            raise _inapplicable(str(refused), refused.code) from None
        except (ValueError, ProofInvalid) as error:
            raise _inapplicable(str(error), "thoughts_invalid") from None

    return record


def _inapplicable(message: str, code: str) -> EffectInapplicable:
    return EffectInapplicable(message, code=code, field="primitive_effects.0.payload")


VERB_STEPS = MappingProxyType({verb: Steps(after=_recorder(verb)) for verb in RECEIPTS})
