"""Gives a checkpoint one verdict, the same at every door.

| Verdict | The checkpoint |
|---|---|
| `invalid` | is not signed by its log, or carries a signature that does not hold |
| `diverged` | is signed, and the log that it states is not the one that it is compared with |
| `unwitnessed` | is signed and consistent; fewer witnesses have cosigned than the policy asks for |
| `witnessed` | is signed and consistent, and the quorum of the policy has cosigned it |

The first that applies is the verdict. Nobody counts as a witness whom the policy does not name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from typing_extensions import TypedDict

from kernel.proof.checkpoint import Checkpoint, SignedCheckpoint
from kernel.proof.verification import ProofInvalid
from kernel.proof.witness_policy import WitnessPolicy

Compare = Callable[[Checkpoint], str | None]
"""Returns why a log that a checkpoint states is not the one that is known, None where it is."""


class CheckpointVerdict(StrEnum):
    """See the table above."""

    INVALID = "invalid"
    DIVERGED = "diverged"
    UNWITNESSED = "unwitnessed"
    WITNESSED = "witnessed"


class CosignedDocument(TypedDict):
    """A witness that has cosigned, and when by its own clock, in seconds since 1970."""

    name: str
    time_s: str


class CheckpointVerdictDocument(TypedDict):
    """What a checkpoint is worth."""

    verdict: str
    message: str
    origin: str | None
    tree_head: str | None
    tree_size: str | None
    root_hash: str | None
    witnesses: list[CosignedDocument]
    witnesses_known: int
    quorum_met: bool


@dataclass(frozen=True, slots=True)
class JudgedCheckpoint:
    """A checkpoint with its verdict."""

    verdict: CheckpointVerdict
    message: str
    """The verdict as a sentence, with its reason."""

    stated: Checkpoint | None
    """None where it is no checkpoint."""

    cosigned: tuple[tuple[str, int], ...] = ()
    """The names and times of the witnesses that have cosigned."""

    witnesses_known: int = 0
    quorum_met: bool = False
    """Whether the policy accepts it; one that asks for no witness accepts it unwitnessed."""

    def document(self) -> CheckpointVerdictDocument:
        """Return it as JSON has it."""
        stated = self.stated
        root = None if stated is None else stated.root.hex()
        return {
            "verdict": str(self.verdict),
            "message": self.message,
            "origin": None if stated is None else stated.origin,
            "tree_head": None if stated is None else f"{stated.size}:{root}",
            "tree_size": None if stated is None else str(stated.size),
            "root_hash": root,
            "witnesses": [
                {"name": _printable_name(name), "time_s": str(time_s)}
                for name, time_s in self.cosigned
            ],
            "witnesses_known": self.witnesses_known,
            "quorum_met": self.quorum_met,
        }


def _printable_name(name: str) -> str:
    """Return a name of a policy, which is octets, as text that JSON can have."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def judge_checkpoint(
    note: bytes, policy: WitnessPolicy, compare: Compare = lambda _: None
) -> JudgedCheckpoint:
    """Return the verdict on a checkpoint of a log that the policy knows."""
    stated: Checkpoint | None = None
    try:
        checkpoint = SignedCheckpoint.of_bytes(note)
        stated = checkpoint.stated
        signed = checkpoint.holding(policy.of_log(stated.origin))
        times = checkpoint.holding(witness.verifier for witness in policy.witnesses)
    except ProofInvalid as error:
        return JudgedCheckpoint(CheckpointVerdict.INVALID, f"invalid: {error}", stated)
    if not signed:
        message = f"invalid: no key of {stated.origin!r} that is known here has signed it"
        return JudgedCheckpoint(CheckpointVerdict.INVALID, message, stated)
    difference = compare(stated)
    if difference is not None:
        return JudgedCheckpoint(CheckpointVerdict.DIVERGED, f"diverged: {difference}", stated)
    cosigned = tuple(
        (witness.name, times[witness.verifier])
        for witness in policy.witnesses
        if witness.verifier in times
    )
    quorum_met = policy.is_met([name for name, _ in cosigned])
    is_witnessed = quorum_met and bool(cosigned)
    count = f"{len(cosigned)} of {len(policy.witnesses)}"
    return JudgedCheckpoint(
        CheckpointVerdict.WITNESSED if is_witnessed else CheckpointVerdict.UNWITNESSED,
        f"witnessed {count}" if is_witnessed else f"consistent but unwitnessed ({count})",
        stated,
        cosigned,
        len(policy.witnesses),
        quorum_met,
    )
