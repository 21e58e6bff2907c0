"""Diagnoses the published log and its witnesses, each problem with its remedy.

The published checkpoint is judged beside the log, and the newest tiles of the folder are compared
with the rows. Each witness is shown the checkpoint that is public already; it may cosign that once
more, and learns nothing new.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from kernel.landscape.record_anchors import count_unanchored_groups
from kernel.ledger.ledger import LedgerView
from kernel.proof.checkpoint import SignedCheckpoint
from kernel.proof.checkpoint_verdict import CheckpointVerdict, JudgedCheckpoint, judge_checkpoint
from kernel.proof.tiles import TILE_LEVELS, TILE_WIDTH, hashes_of
from kernel.proof.verification import ProofInvalid
from kernel.proof.witness_policy import WitnessPolicy
from kernel.records.receipt_seals import count_behind_the_log
from workers.environment.checkpoint_folder import read_checkpoint, read_tile
from workers.environment.diagnosis import Diagnosis, State
from workers.environment.known_logs import policy_at, with_own_keys
from workers.environment.ledger_access import ledger_place, open_record
from workers.environment.settings import Settings
from workers.publication.witnesses import WitnessClient
from workers.publication.witnessing import WitnessOutcome, WitnessReply
from workers.views.checkpoints import difference

TILES_LOOKED_AT: Final = 16
"""Tiles of each level of the tree, the newest ones."""

_TODO_BY_VERDICT: Final = {
    CheckpointVerdict.INVALID: "see whose keys ROTULUS_CHECKPOINT_KEY and the policy name",
    CheckpointVerdict.DIVERGED: "sign nothing; put the newest ledger back, or take another name",
    CheckpointVerdict.UNWITNESSED: "see the witnesses below; the next publication asks them again",
}
_OF_OUTCOME: Final[dict[WitnessOutcome, tuple[State, str]]] = {
    "cosigned": ("ok", ""),
    "behind": ("note", "the next publication asks it again; if it stays, see its log"),
    "diverged": ("problem", "sign nothing; it holds you to a log that this one is not"),
    "refused": ("problem", "see the log of the witness"),
    "unreachable": ("problem", "start it, or mend its URL in ROTULUS_WITNESS_POLICY"),
}
_TODO_BY_STATUS: Final = {
    403: "have its operator name the public key of this log, which was printed when it was made",
    404: "have its operator name this log, and see that the URL is that of a witness",
}


def diagnose_folder(settings: Settings) -> Iterator[Diagnosis]:
    """Yield what is to be said of the folder to which the log is published."""
    folder = settings.published_folder
    note = read_checkpoint(folder)
    if note is None:
        if settings.checkpoint_key is not None:
            todo = "a gateway publishes within ROTULUS_CHECKPOINT_S; else `rotulus status`"
            yield Diagnosis("published", "note", f"nothing is published in {folder}", todo)
        return
    policy = with_own_keys(policy_at(settings.witness_policy), settings.checkpoint_key)
    if not policy.logs:
        what = f"a log is published in {folder}, and no key is known to judge it by"
        yield Diagnosis("published", "note", what, "set ROTULUS_CHECKPOINT_KEY or a policy")
        return
    with open_record(ledger_place(settings)) as view:
        tree = view.log_tree()
        verdict = judge_checkpoint(note, policy, lambda stated: difference(tree, stated))
        yield _of_verdict(verdict, tree.size)
        if waiting := count_behind_the_log(view):
            what = f"{waiting} receipts stand behind the last row, and no tree head commits to them"
            todo = "a running gateway seals them within ROTULUS_RECEIPTS_SEAL_S"
            yield Diagnosis("published", "note", what, todo)
        if groups := count_unanchored_groups(view):
            what = f"{groups} groups of records of runs are stated by no receipt"
            todo = "a running gateway states them within ROTULUS_RECEIPTS_SEAL_S"
            yield Diagnosis("published", "note", what, todo)
        if verdict.stated is not None and verdict.verdict in (
            CheckpointVerdict.UNWITNESSED,
            CheckpointVerdict.WITNESSED,
        ):
            yield _of_tiles(settings, view, verdict.stated.size)


async def witnesses(settings: Settings, client: WitnessClient | None = None) -> Sequence[Diagnosis]:
    """Return what is to be said of each witness of the policy, and of its quorum."""
    if settings.witness_policy is None:
        if settings.checkpoint_key is None:
            return []
        todo = "name witnesses in a file of tlog-policy, and the file by ROTULUS_WITNESS_POLICY"
        return [Diagnosis("witnesses", "note", "nobody witnesses the log", todo)]
    policy = policy_at(settings.witness_policy)
    note = read_checkpoint(settings.published_folder)
    if note is None:
        what = "they are not asked: nothing is published that they could be shown"
        return [Diagnosis("witnesses", "note", what, "publish the log first")]
    checkpoint = SignedCheckpoint.of_bytes(note)
    client = client or WitnessClient(policy)
    try:
        replies = sorted(await client.look(checkpoint), key=lambda reply: reply.url)
    finally:
        await client.aclose()
    size = checkpoint.stated.size
    seen = [_of_witness(reply, policy, size) for reply in replies]
    return [*seen, *_of_quorum(policy, replies)]


def _of_verdict(verdict: JudgedCheckpoint, rows: int) -> Diagnosis:
    size = 0 if verdict.stated is None else verdict.stated.size
    what = f"{size} of {rows} rows are published, {verdict.message}"
    is_well = verdict.verdict is CheckpointVerdict.WITNESSED or (
        verdict.verdict is CheckpointVerdict.UNWITNESSED and verdict.quorum_met
    )
    if is_well:
        return Diagnosis("published", "ok", what)
    return Diagnosis("published", "problem", what, _TODO_BY_VERDICT[verdict.verdict])


def _of_tiles(settings: Settings, view: LedgerView, size: int) -> Diagnosis:
    """Compare the newest published tiles with those of the rows."""
    tree, folder, level, looked_at = view.log_tree(), settings.published_folder, 0, 0
    while count := size >> (TILE_LEVELS * level):
        newest = -(-count // TILE_WIDTH)
        for index in range(max(0, newest - TILES_LOOKED_AT), newest):
            width = min(TILE_WIDTH, count - index * TILE_WIDTH)
            stored = read_tile(folder, level, index, width)
            looked_at += 1
            if stored is None or hashes_of(stored) != list(tree.tile(level, index)[:width]):
                what = f"tile {level}/{index} in {folder} is not that of the rows"
                todo = "move the folder away: the next publication writes all of it anew"
                return Diagnosis("published", "problem", what, todo)
        level += 1
    return Diagnosis("published", "ok", f"the {looked_at} newest tiles there are those of the rows")


def _of_witness(reply: WitnessReply, policy: WitnessPolicy, size: int) -> Diagnosis:
    names = ", ".join(witness.name for witness in policy.witnesses if witness.url == reply.url)
    state, todo = _OF_OUTCOME[reply.outcome]
    what = f"{names} at {reply.url} is {reply.outcome}: {reply.message}"
    if reply.outcome == "cosigned":
        what = f"{names} at {reply.url} has cosigned all {size} rows that are published"
    elif reply.outcome == "behind":
        what = f"{names} at {reply.url} has cosigned {reply.size} of {size} rows"
    return Diagnosis("witnesses", state, what, _TODO_BY_STATUS.get(reply.status or 0, todo))


def _of_quorum(policy: WitnessPolicy, replies: Sequence[WitnessReply]) -> Iterator[Diagnosis]:
    """Yield whether the witnesses that answer can make the quorum of the policy."""
    answering = {reply.url for reply in replies if reply.outcome in ("cosigned", "behind")}
    names = [witness.name for witness in policy.witnesses if witness.url in answering]
    what = f"{len(names)} of {len(policy.witnesses)} of the policy answer"
    if policy.is_met(names):
        yield Diagnosis("witnesses", "ok", f"{what}, which is enough for {policy.quorum!r}")
    else:
        todo = "mend those above, or name others: until then the log is unwitnessed"
        yield Diagnosis("witnesses", "problem", f"{what}, fewer than {policy.quorum!r} needs", todo)
    if policy.quorum == "none":
        todo = "name a witness or a group as the quorum"
        yield Diagnosis("witnesses", "note", "the policy is content without any witness", todo)


def unreadable(error: ProofInvalid) -> Diagnosis:
    """Say that the published checkpoint, or the policy, cannot be read."""
    return Diagnosis("witnesses", "problem", f"{error.code}: {error}", "mend the file")
