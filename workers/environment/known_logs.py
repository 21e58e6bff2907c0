"""Reads the policy that a file of the settings states, and the keys of this log beside it."""

from dataclasses import replace
from pathlib import Path

from kernel.proof.witness_policy import (
    POLICY_BYTES_MAX,
    KnownLog,
    PolicyInvalid,
    WitnessPolicy,
)
from workers.environment.checkpoint_key import verifiers_in


def policy_at(path: Path | None) -> WitnessPolicy:
    """Read the policy of a file, one without witnesses where no file is named.

    Raises:
        PolicyInvalid: it is no policy, or cannot be read.
    """
    if path is None:
        return WitnessPolicy()
    try:
        with path.open("rb") as file:
            return WitnessPolicy.of_bytes(file.read(POLICY_BYTES_MAX + 1))
    except OSError as error:
        raise PolicyInvalid(f"{path}: {error.strerror}") from error


def with_own_keys(policy: WitnessPolicy, key_file: Path | None) -> WitnessPolicy:
    """Return a policy with the keys of a file among those of logs that count."""
    if key_file is None:
        return policy
    known = {log.verifier for log in policy.logs}
    own = (KnownLog(verifier, None) for verifier in verifiers_in(key_file))
    added = tuple(log for log in own if log.verifier not in known)
    return replace(policy, logs=(*policy.logs, *added))
