"""Holds a restored ledger against what others have seen of it, and signs nothing.

What was signed, published, cosigned or answered beyond the end of a backup is lost, and is not
signed for again: a log that goes on from the backup under the same name would have two histories.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from kernel.ledger.ledger import LedgerView
from kernel.ledger.log_tree import LogTree
from kernel.ledger.shards import ledger_id_of
from kernel.proof.checkpoint import Checkpoint, SignedCheckpoint
from kernel.proof.verification import ProofInvalid
from workers.environment.checkpoint_folder import read_checkpoint
from workers.environment.checkpoint_key import CheckpointKey, signed_path
from workers.environment.key_file import CheckpointKeyUnusable, keys_in, read_private
from workers.environment.known_head import known_head_beside, read_known_head
from workers.environment.ledger_access import ledger_place, open_record
from workers.environment.settings import Settings
from workers.publication.witnessing import Witnesses, WitnessReply

Verdict = Literal["continues", "lost", "diverged", "unknown"]

REFUSED: Final = frozenset({"lost", "diverged"})
_NEW_NAME: Final = (
    "make keys for another name by `rotulus checkpoint key FILE --origin ORIGIN`, and tell those"
    " who verify that the old log has ended, and where"
)
_ACCEPT: Final = (
    "the first gateway stands halted: `rotulus ledger lost` lists what is gone, `rotulus ledger"
    " accept-head --reason TEXT --authority NAME` goes on from what is there"
)


@dataclass(frozen=True, slots=True)
class Continuity:
    """How the ledger stands to what one other place has seen of it."""

    source: str
    verdict: Verdict
    message: str
    to_do: str = ""


async def judge_continuity(settings: Settings, witnesses: Witnesses) -> list[Continuity]:
    """Return how the ledger stands to the published checkpoint, to its keys and to its witnesses.

    Raises:
        LedgerUnavailable: there is no ledger.
    """
    place, key_file = ledger_place(settings), settings.checkpoint_key
    with open_record(place) as view:
        judged, newest = _of_notes(view.log_tree(), settings)
        if key_file is not None:
            judged += _of_known_head(view, known_head_beside(key_file))
    if newest is not None:
        replies = await witnesses.look(newest)
        with open_record(place) as view:
            judged += [_of_reply(view.log_tree(), newest, reply) for reply in replies]
    return judged


def _of_notes(
    tree: LogTree, settings: Settings
) -> tuple[list[Continuity], SignedCheckpoint | None]:
    """Return how a tree stands to the checkpoints that are here, and the largest of these."""
    sources = [(f"published in {settings.published_folder}", _published_note)]
    if settings.checkpoint_key is not None:
        sources.append((f"signed with {settings.checkpoint_key}", _signed_note))
    judged, newest = [], None
    for source, note_of in sources:
        try:
            signed = note_of(settings)
        except (OSError, ProofInvalid, CheckpointKeyUnusable) as error:
            judged.append(Continuity(source, "unknown", str(error)))
            continue
        if signed is not None:
            judged.append(_of_checkpoint(tree, source, signed.stated))
            if newest is None or signed.stated.size > newest.stated.size:
                newest = signed
    return judged, newest


def _published_note(settings: Settings) -> SignedCheckpoint | None:
    note = read_checkpoint(settings.published_folder)
    if note is None:
        return None
    if settings.checkpoint_key is None:
        return SignedCheckpoint.of_bytes(note)
    key = CheckpointKey(settings.checkpoint_key, keys_in(settings.checkpoint_key))
    return key.open_published(note)


def _signed_note(settings: Settings) -> SignedCheckpoint | None:
    assert settings.checkpoint_key is not None  # noqa: S101 - see the caller
    return SignedCheckpoint.of_bytes(read_private(signed_path(settings.checkpoint_key)))


def _of_checkpoint(tree: LogTree, source: str, stated: Checkpoint) -> Continuity:
    if stated.size > tree.size:
        lost = f"{stated.size} rows, the backup has {tree.size}: {stated.size - tree.size} are lost"
        return Continuity(source, "lost", lost, _NEW_NAME)
    if tree.root(stated.size) != stated.root:
        message = f"the first {stated.size} rows are other ones"
        return Continuity(source, "diverged", message, _NEW_NAME)
    return Continuity(source, "continues", f"{stated.size} rows, the backup has {tree.size}")


def _of_known_head(view: LedgerView, path: Path) -> Iterator[Continuity]:
    known = read_known_head(path)
    if known is None or known.ledger_id != (ledger_id_of(view) or ""):
        return
    source, head, now = f"answered, as {path} says", known.memory.known, view.head()
    rows = head.ec_sequence_number
    if (rows, head.receipt_sequence) > (now.ec_sequence_number, now.receipt_sequence):
        message = (
            f"{rows} rows and {head.receipt_sequence} receipts, the backup has"
            f" {now.ec_sequence_number} and {now.receipt_sequence}"
        )
        yield Continuity(source, "lost", message, _ACCEPT)
    else:
        yield Continuity(source, "continues", f"{rows} rows")


def _of_reply(tree: LogTree, signed: SignedCheckpoint, reply: WitnessReply) -> Continuity:
    source = f"seen by the witness {reply.url}"
    if reply.outcome == "cosigned":
        return _of_checkpoint(tree, source, signed.stated)
    if reply.outcome == "behind" and reply.size is not None and reply.size <= tree.size:
        return Continuity(source, "continues", reply.message)
    if reply.outcome in ("behind", "diverged"):
        is_ahead = reply.size is not None and reply.size > tree.size
        return Continuity(source, "lost" if is_ahead else "diverged", reply.message, _NEW_NAME)
    return Continuity(source, "unknown", reply.message or reply.outcome, "ask it again")
