"""Reads from a file whose signatures make a checkpoint trusted (C2SP tlog-policy).

A policy names logs and witnesses by their keys, groups of witnesses with a number that is enough,
and the quorum: the witness or the group that has to have cosigned. The file is one of octets, so
names that are no UTF-8 are names all the same.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from kernel.proof.signing_keys import KeyKind, NoteVerifier
from kernel.proof.verification import ProofInvalid

POLICY_BYTES_MAX = 1 << 20

LOG_KINDS = frozenset({KeyKind.ED25519, KeyKind.ML_DSA_44})
WITNESS_KINDS = frozenset({KeyKind.ED25519_COSIGNATURE, KeyKind.ML_DSA_44})

_NOBODY = "none"
_BLANK = re.compile("[ \t]+")
_OCTETS = bytes({0x09, 0x0A, *range(0x20, 0x7F), *range(0x80, 0x100)})
_DECIMAL = re.compile("[1-9][0-9]{0,5}")


class PolicyInvalid(ProofInvalid):
    """The file is no policy."""

    code = "witness_policy_invalid"


@dataclass(frozen=True, slots=True)
class KnownLog:
    """A log whose checkpoints are accepted, by one of its keys."""

    verifier: NoteVerifier
    url: str | None


@dataclass(frozen=True, slots=True)
class KnownWitness:
    """A witness, under the name by which the policy knows it."""

    name: str
    verifier: NoteVerifier
    url: str | None


@dataclass(frozen=True, slots=True)
class _Group:
    name: str
    enough: int
    members: tuple[str, ...]


@dataclass(slots=True)
class _Lines:
    """What was read of a file so far."""

    logs: list[KnownLog] = field(default_factory=list)
    witnesses: dict[str, KnownWitness] = field(default_factory=dict)
    groups: dict[str, _Group] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)
    public_keys: set[bytes] = field(default_factory=set)
    quorum: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WitnessPolicy:
    """The logs, the witnesses and the quorum of a file."""

    logs: tuple[KnownLog, ...] = ()
    witnesses: tuple[KnownWitness, ...] = ()
    quorum: str = _NOBODY
    groups: tuple[_Group, ...] = ()
    """In their order: a group names those before it alone."""

    @classmethod
    def of_bytes(cls, content: bytes) -> Self:
        """Read a file.

        Raises:
            PolicyInvalid: it is no policy; the message names the line.
        """
        if len(content) > POLICY_BYTES_MAX:
            raise PolicyInvalid(f"a policy has at most {POLICY_BYTES_MAX} bytes")
        if content.translate(None, _OCTETS):
            raise PolicyInvalid("a policy has no control characters but tab and newline")
        read = _Lines()
        lines = content.decode(errors="surrogateescape").split("\n")
        for number, line in enumerate(lines, start=1):
            words = _BLANK.split(line.strip(" \t"))
            if words[0] and not words[0].startswith("#"):
                try:
                    _read(read, words)
                except ProofInvalid as error:
                    raise PolicyInvalid(f"line {number} of the policy: {error}") from None
        if len(read.quorum) != 1:
            raise PolicyInvalid("a policy has one line `quorum`, which may be `quorum none`")
        witnesses, groups = tuple(read.witnesses.values()), tuple(read.groups.values())
        return cls(tuple(read.logs), witnesses, read.quorum[0], groups)

    def to_bytes(self) -> bytes:
        """Return the policy as a file that says the same and nothing beside."""
        lines = [_words("log", log.verifier.vkey, log.url) for log in self.logs]
        lines += [
            _words("witness", witness.name, witness.verifier.vkey, witness.url)
            for witness in self.witnesses
        ]
        lines += [
            _words("group", group.name, str(group.enough), *group.members) for group in self.groups
        ]
        lines.append(_words("quorum", self.quorum))
        return "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")

    def of_log(self, origin: str) -> tuple[NoteVerifier, ...]:
        """Return the keys of a log, none where the policy does not know it."""
        return tuple(log.verifier for log in self.logs if log.verifier.name == origin)

    def is_met(self, cosigned: Collection[str]) -> bool:
        """Tell whether these witnesses, by their names here, make the quorum."""
        if self.quorum == _NOBODY:
            return True
        witnessed = set(cosigned)
        for group in self.groups:
            if sum(member in witnessed for member in group.members) >= group.enough:
                witnessed.add(group.name)
        return self.quorum in witnessed


def _words(*words: str | None) -> str:
    return " ".join(word for word in words if word is not None)


def _read(read: _Lines, words: list[str]) -> None:
    keyword, *values = words
    reader = _READERS.get(keyword)
    if reader is None:
        raise ProofInvalid("begins with neither log, witness, group nor quorum")
    reader(read, values)


def _log(read: _Lines, values: list[str]) -> None:
    vkey, url = _vkey_and_url(values)
    verifier = _verifier(vkey, LOG_KINDS)
    _check_unknown_key(read, verifier)
    read.logs.append(KnownLog(verifier, url))


def _witness(read: _Lines, values: list[str]) -> None:
    name, *rest = values or [""]
    vkey, url = _vkey_and_url(rest)
    verifier = _verifier(vkey, WITNESS_KINDS)
    _check_new_name(read, name)
    _check_unknown_key(read, verifier)
    read.witnesses[name] = KnownWitness(name, verifier, url)


def _group(read: _Lines, values: list[str]) -> None:
    if len(values) < 3:
        raise ProofInvalid("a group has a name, a number and members")
    name, enough, *members = values
    _check_new_name(read, name)
    for member in members:
        _check_known_name(read, member)
        if member in read.members:
            raise ProofInvalid(f"{member!r} is a member already")
        read.members.add(member)
    words = {"any": 1, "all": len(members)}
    if enough not in words and _DECIMAL.fullmatch(enough) is None:
        raise ProofInvalid("the number of a group is any, all or a decimal number")
    number = words.get(enough) or int(enough)
    if number > len(members):
        raise ProofInvalid(f"{number} are more than the members")
    read.groups[name] = _Group(name, number, tuple(members))


def _quorum(read: _Lines, values: list[str]) -> None:
    if len(values) != 1:
        raise ProofInvalid("a quorum is one name")
    if values[0] != _NOBODY:
        _check_known_name(read, values[0])
    read.quorum.append(values[0])


_READERS: Mapping[str, Callable[[_Lines, list[str]], None]] = MappingProxyType(
    {"log": _log, "witness": _witness, "group": _group, "quorum": _quorum}
)


def _vkey_and_url(values: list[str]) -> tuple[str, str | None]:
    if not 1 <= len(values) <= 2:
        raise ProofInvalid("a key, and a URL or nothing, are expected")
    return values[0], values[1] if len(values) == 2 else None


def _verifier(vkey: str, kinds: frozenset[KeyKind]) -> NoteVerifier:
    verifier = NoteVerifier.of_vkey(vkey)
    if verifier.kind not in kinds:
        raise ProofInvalid("the key is of a kind that does not sign this")
    return verifier


def _check_unknown_key(read: _Lines, verifier: NoteVerifier) -> None:
    """Refuse a key that is there already: who signs as two would count twice."""
    if verifier.public_key in read.public_keys:
        raise ProofInvalid("the key is there already")
    read.public_keys.add(verifier.public_key)


def _check_new_name(read: _Lines, name: str) -> None:
    if name in ("", _NOBODY) or name in read.witnesses or name in read.groups:
        raise ProofInvalid(f"{name!r} names something already")


def _check_known_name(read: _Lines, name: str) -> None:
    if name not in read.witnesses and name not in read.groups:
        raise ProofInvalid(f"{name!r} names nothing before this line")
