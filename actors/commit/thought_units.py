"""Records steps of sessions of thoughts and of rounds (seed 002), each an operation of the log.

A step that was taken before is answered as it was then and writes nothing. One that does not come
next is refused with the code of what is missing. A thought is known by its id in its session: the
same id with the same content is the same thought, whatever became of the session since.

The finalization of a session opens a round where none is open, and seals it where it has as many
sessions as one may, all in one transaction.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

import orjson
from typing_extensions import TypedDict

from actors.commit.unit_context import CommitContext
from actors.errors import ThoughtNotTaken
from actors.orchestrator.intents import StateThought
from kernel.algebra.verbs import (
    AUDIT_SESSION_END,
    AUDIT_SESSION_START,
    AUDIT_VERIFY_CHAIN,
    MERKLE_FINALIZE,
    ROUND_OPEN,
    ROUND_SEAL,
    THOUGHT_RECORD,
)
from kernel.ledger.blob_commitment import blob_commitment
from kernel.ledger.ledger import LedgerView
from kernel.ledger.store.tables import Row
from kernel.model.result import RejectedResult
from kernel.model.thought_receipts import ROUND_SESSIONS_MAX
from kernel.proof.seals import signatures_of
from kernel.proof.signing_keys import SigningKey
from kernel.proof.thought_chain import ThoughtType
from kernel.retention.erasure import is_erased
from kernel.thoughts.recording import next_genesis, next_round_seal, session_seal
from kernel.thoughts.sessions import (
    ThoughtRefused,
    check_final,
    check_room,
    check_state,
    newest_round,
    open_round,
    session_of,
    thought_of_id,
)
from kernel.values.canonical import digest
from kernel.values.host import iso_time

SealedBy = Literal["command", "time", "count"]


@dataclass(frozen=True, slots=True)
class Sealing:
    """Who signs seals, and how many sessions a round has at most."""

    signers: tuple[SigningKey, ...] = ()
    """Each signs inside the transaction, so none of them may be a slow one."""

    round_sessions: int = ROUND_SESSIONS_MAX


UNSIGNED = Sealing()
"""Nobody signs."""


class AuditSessionDocument(TypedDict):
    """Where a session of thoughts stands."""

    session_id: str
    task_id: str
    state: str
    thought_count: int
    zeta_head: str
    verified_count: int
    round_number: int | None


class ThoughtDocument(TypedDict):
    """A thought that is on the record."""

    session_id: str
    sequence: int
    thought_id: str
    thought_type: ThoughtType
    content_commitment: str
    content_hash: str
    prev_hash: str
    recorded_at: str
    ec_sequence_number: str
    duplicate: bool


class SealSignatureDocument(TypedDict):
    """A public key, and its line below the note of a seal."""

    vkey: str
    line: str


class MerkleRootDocument(TypedDict):
    """The root of a session, its seal and who signed it; null until the session is finalized."""

    session_id: str
    merkle_root: str | None
    seal: dict[str, Any] | None
    signatures: list[SealSignatureDocument]
    seal_sequence: str | None


class RoundDocument(TypedDict):
    """A round: its genesis, and its seal once it has one."""

    round_number: int
    state: Literal["open", "sealed"]
    session_count: int
    genesis: dict[str, Any]
    seal: dict[str, Any] | None
    signatures: list[SealSignatureDocument]
    opened_sequence: str
    sealed_sequence: str | None


@dataclass(frozen=True, slots=True)
class StartAuditSessionUnit:
    """Begin a session of thoughts for a task."""

    session_id: str
    task_id: str

    def run(self, context: CommitContext) -> AuditSessionDocument | RejectedResult:
        """Begin it; for the same task it has begun once."""
        try:
            row = session_of(context.transaction, self.session_id)
        except ThoughtRefused:
            stated = {"session_id": self.session_id, "task_id": self.task_id}
            return _submit_statement(context, AUDIT_SESSION_START, stated) or self._document(
                context
            )
        if row["task_id"] != self.task_id:
            message = f"{self.session_id} is of another task"
            raise ThoughtNotTaken("audit_session_exists", message)
        return session_document(row)

    def _document(self, context: CommitContext) -> AuditSessionDocument:
        return session_document(session_of(context.transaction, self.session_id))


@dataclass(frozen=True, slots=True)
class RecordThoughtUnit:
    """Record a thought of a session."""

    session_id: str
    thought_id: str
    thought_type: ThoughtType
    content: str

    def run(self, context: CommitContext) -> ThoughtDocument | RejectedResult:
        """Record it, unless it is on the record."""
        transaction, content = context.transaction, self.content.encode()
        with _refusals():
            row = session_of(transaction, self.session_id)
            known = thought_of_id(transaction, self.session_id, self.thought_id)
            if known is not None:
                return self._thought_document(context, known, content)
            check_room(row)
        commitment = transaction.put_blob(content)
        stated = {
            "session_id": self.session_id,
            "thought_id": self.thought_id,
            "thought_type": self.thought_type,
            "content_commitment": commitment,
        }
        rejected = _submit_statement(context, THOUGHT_RECORD, stated)
        if rejected is not None:
            transaction.drop_blob(commitment)
            return rejected
        recorded = thought_of_id(transaction, self.session_id, self.thought_id)
        return thought_document_of(cast("Row", recorded), duplicate=False)

    def _thought_document(
        self, context: CommitContext, row: Row, content: bytes
    ) -> ThoughtDocument:
        document = thought_document_of(row, duplicate=True)
        commitment = document["content_commitment"]
        opening = context.transaction.blob_opening(commitment)
        if opening is None:
            is_gone = is_erased(context.transaction, commitment)
            where = "was erased" if is_gone else "lies in the archive, where it is not compared"
            message = f"{self.thought_id} is on the record and its content {where}"
            raise ThoughtNotTaken("thought_conflict", message)
        is_same = blob_commitment(opening[0], content) == commitment
        if not is_same or document["thought_type"] != self.thought_type:
            message = f"{self.thought_id} is another thought of {self.session_id}"
            raise ThoughtNotTaken("thought_conflict", message)
        return document


@dataclass(frozen=True, slots=True)
class ChainVerifiedUnit:
    """Record that the chain of a session was read again and holds, up to a thought."""

    session_id: str
    thought_count: int
    zeta_head: str

    def run(self, context: CommitContext) -> AuditSessionDocument | RejectedResult:
        """Record it where it goes further than before."""
        with _refusals():
            row = session_of(context.transaction, self.session_id)
        if row["state"] == "open" and self.thought_count > row["verified_count"]:
            stated = {
                "session_id": self.session_id,
                "thought_count": self.thought_count,
                "zeta_head": self.zeta_head,
            }
            rejected = _submit_statement(context, AUDIT_VERIFY_CHAIN, stated)
            if rejected is not None:
                return rejected
        return session_document(session_of(context.transaction, self.session_id))


@dataclass(frozen=True, slots=True)
class FinalizeUnit:
    """Seal a session: its tree is final, and its root is on the log."""

    session_id: str
    sealing: Sealing

    def run(self, context: CommitContext) -> MerkleRootDocument | RejectedResult:
        """Seal it; one that is sealed is answered with its root."""
        transaction = context.transaction
        with _refusals():
            row = session_of(transaction, self.session_id)
            if row["seal_bytes"] is not None:
                return root_document(row)
            check_final(transaction, row)
        if open_round(transaction) is None:
            rejected = _open_round(context)
            if rejected is not None:
                return rejected
        of_round = cast("Row", open_round(transaction))
        seal = session_seal(row, of_round["round_number"], _now(context))
        signatures = signatures_of(seal, self.sealing.signers)
        rejected = _submit_statement(context, MERKLE_FINALIZE, seal | {"signatures": signatures})
        if rejected is not None:
            return rejected
        if of_round["session_count"] + 1 >= self.sealing.round_sessions:
            _seal_round(context, self.sealing, "count")
        return root_document(session_of(transaction, self.session_id))


@dataclass(frozen=True, slots=True)
class EndAuditSessionUnit:
    """End a session that was finalized."""

    session_id: str

    def run(self, context: CommitContext) -> AuditSessionDocument | RejectedResult:
        """End it; one that has ended is answered as it stands."""
        with _refusals():
            row = session_of(context.transaction, self.session_id)
            if row["state"] != "ended":
                check_state(row, "finalized")
                rejected = _submit_statement(
                    context, AUDIT_SESSION_END, {"session_id": self.session_id}
                )
                if rejected is not None:
                    return rejected
            return session_document(session_of(context.transaction, self.session_id))


@dataclass(frozen=True, slots=True)
class OpenRoundUnit:
    """Open a round."""

    def run(self, context: CommitContext) -> RoundDocument | RejectedResult:
        """Open the one behind the newest, which has to be sealed."""
        with _refusals():
            return _open_round(context) or _newest(context)


@dataclass(frozen=True, slots=True)
class SealRoundUnit:
    """Seal the open round."""

    sealing: Sealing

    def run(self, context: CommitContext) -> RoundDocument | RejectedResult:
        """Seal it; one without a session is refused."""
        with _refusals():
            return _seal_round(context, self.sealing, "command") or _newest(context)


@dataclass(frozen=True, slots=True)
class SealDueRoundUnit:
    """Seal the open round where it has been open for so long and has a session."""

    sealing: Sealing
    round_us: int

    def run(self, context: CommitContext) -> RoundDocument | RejectedResult | None:
        """Seal it, or return None where it is not due."""
        row = open_round(context.transaction)
        if not is_due(row, context.transaction.host.now_us(), self.round_us):
            return None
        return _seal_round(context, self.sealing, "time") or _newest(context)


def is_due(row: Row | None, now_us: int, round_us: int) -> bool:
    """Tell whether the open round is to be sealed for its age."""
    return (
        row is not None
        and row["session_count"] > 0
        and bool(now_us - row["opened_at_us"] >= round_us)
    )


def session_document(row: Row) -> AuditSessionDocument:
    """Return where a session stands."""
    names = AuditSessionDocument.__annotations__
    return cast("AuditSessionDocument", {name: row[name] for name in names})


def thought_document_of(row: Row, *, duplicate: bool) -> ThoughtDocument:
    """Return a thought by its row."""
    record = orjson.loads(row["record_bytes"])
    del record["format"]
    return cast(
        "ThoughtDocument",
        record
        | {
            "content_hash": row["content_hash"],
            "ec_sequence_number": str(row["ec_sequence_number"]),
            "duplicate": duplicate,
        },
    )


def root_document(row: Row) -> MerkleRootDocument:
    """Return the root of a session, its seal and who signed it."""
    seal = _parse(row["seal_bytes"])
    return {
        "session_id": row["session_id"],
        "merkle_root": None if seal is None else seal["eta_root"],
        "seal": seal,
        "signatures": _parse(row["signatures"]) or [],
        "seal_sequence": None if seal is None else str(row["seal_sequence"]),
    }


def round_document(row: Row) -> RoundDocument:
    """Return a round by its row."""
    sealed = row["sealed_sequence"]
    return {
        "round_number": row["round_number"],
        "state": "open" if sealed is None else "sealed",
        "session_count": row["session_count"],
        "genesis": orjson.loads(row["genesis_bytes"]),
        "seal": _parse(row["seal_bytes"]),
        "signatures": _parse(row["signatures"]) or [],
        "opened_sequence": str(row["opened_sequence"]),
        "sealed_sequence": None if sealed is None else str(sealed),
    }


def read_session_document(view: LedgerView, session_id: str) -> AuditSessionDocument:
    """Return where a session stands, from a snapshot.

    Raises:
        ThoughtNotTaken: `audit_session_unknown`.
    """
    with _refusals():
        return session_document(session_of(view, session_id))


def _open_round(context: CommitContext) -> RejectedResult | None:
    return _submit_statement(context, ROUND_OPEN, next_genesis(context.transaction, _now(context)))


def _seal_round(
    context: CommitContext, sealing: Sealing, sealed_by: SealedBy
) -> RejectedResult | None:
    seal = next_round_seal(context.transaction, _now(context), sealed_by)
    signatures = signatures_of(seal, sealing.signers)
    return _submit_statement(context, ROUND_SEAL, seal | {"signatures": signatures})


def _newest(context: CommitContext) -> RoundDocument:
    return round_document(cast("Row", newest_round(context.transaction)))


def _submit_statement(
    context: CommitContext, verb: str, stated: dict[str, Any]
) -> RejectedResult | None:
    """Submit what is stated; return the refusal, None where it is on the record."""
    session_id = stated.get("session_id")
    intent = StateThought(intent_key=digest([verb, stated]), verb=verb, stated=stated)
    document = context.orchestrator.construct(
        intent,
        context.transaction,
        actor="system" if session_id is None else "user",
        session_id=session_id,
    )
    result = context.kernel.submit(context.transaction, document, "orchestrator", id_is_drawn=True)
    return result if isinstance(result, RejectedResult) else None


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except ThoughtRefused as refused:
        raise ThoughtNotTaken(refused.code, str(refused)) from None


def _now(context: CommitContext) -> str:
    return iso_time(context.transaction.host.now_us())


def _parse(content: bytes | None) -> Any:
    return None if content is None else orjson.loads(content)
