"""A log of rows in memory, with its tree and its keys: what others see of a ledger."""

from kernel.proof.checkpoint import Checkpoint, sign_checkpoint
from kernel.proof.key_handover import hand_over
from kernel.proof.merkle_tree import consistency_path, leaf_hash, root_of
from kernel.proof.signing_keys import KeyKind, SeedKey
from kernel.proof.tiles import subtree_root

ORIGIN = "example.com/log"


def log_key(origin=ORIGIN, kind=KeyKind.ED25519, seed=b"l"):
    return SeedKey(origin, kind, seed * 32)


def witness_key(number, kind=KeyKind.ED25519_COSIGNATURE):
    return SeedKey(f"witness.example/w{number}", kind, bytes([number]) * 32)


def handed_over(log=None, size=5, old=None, new=None):
    """A hand-over of a log from its keys to others, behind so many rows."""
    log = log or SignedLog(9)
    new = new or (log_key(seed=b"n"), log_key(kind=KeyKind.ML_DSA_44, seed=b"m"))
    return hand_over(log.stated(size), old or log.keys, new)


class SignedLog:
    """So many rows, of which those behind `common` are others than those of a log without it."""

    def __init__(self, count, common=None, keys=None):
        self.keys = keys or (log_key(),)
        self.leaves = [
            leaf_hash(b"row %d" % row if common is None or row < common else b"another %d" % row)
            for row in range(count)
        ]

    @property
    def verifiers(self):
        return [key.verifier for key in self.keys]

    def node(self, level, index):
        return subtree_root(self.leaves[index << level : (index + 1) << level])

    def stated(self, size):
        return Checkpoint(self.keys[0].name, size, root_of(size, self.node))

    def signed(self, size):
        return sign_checkpoint(self.stated(size), self.keys)

    def path(self, old_size, size):
        return consistency_path(old_size, size, self.node)
