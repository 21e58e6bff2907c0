"""Shares the key of the gateways' mail among the gateways that live, and keeps it nowhere.

A gateway makes a key pair when its process starts and records the public half. Whoever has the
mail's key seals it to each gateway on the record that has none; a gateway that sees nobody alive
who could do so makes a new key. So the key is in the memory of gateways alone: the ledger, its
backups and what reads them hold nothing that opens mail (decision kernel/0660).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from actors.sharding.assignment import LeaseTablePort
from kernel.ledger.shards import GatewayKey

_KEY_BYTES: Final = 32
_LABEL: Final = b"rotulus mail key 1"
_HPKE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """The rows that a gateway has to write before all that live have the mail's key."""

    keys: tuple[GatewayKey, ...] = ()
    gone: tuple[str, ...] = ()
    """Gateways that live no longer."""

    def __bool__(self) -> bool:
        return bool(self.keys or self.gone)


class MailKey:
    """The key of the gateways' mail as one process has it."""

    def __init__(
        self, gateway: str, use: Callable[[bytes, int], None], random_bytes: Callable[[int], bytes]
    ) -> None:
        """Make the key pair of a process; `use` is told of each key of the mail and its number."""
        self.gateway = gateway
        self._use = use
        self._random_bytes = random_bytes
        self._private = X25519PrivateKey.generate()
        self._public = self._private.public_key().public_bytes_raw()
        self._key = b""
        self._number = 0

    def take(self, keys: Mapping[str, GatewayKey]) -> None:
        """Use the mail's key that is sealed to this process on the record, where it is a new one.

        What does not open was sealed by nobody who has the key, and counts as none.
        """
        mine = keys.get(self.gateway)
        if mine is None or mine.public_key != self._public or mine.key_number == self._number:
            return
        try:
            key = _HPKE.decrypt(mine.sealed_key, self._private, _about(mine))
        except (InvalidTag, ValueError):
            return
        self._key, self._number = key, mine.key_number
        self._use(key, mine.key_number)

    def changes(self, keys: Mapping[str, GatewayKey], table: LeaseTablePort) -> KeyChanges:
        """Return what this gateway has to write, given the keys on the record and who lives."""
        mine = keys.get(self.gateway)
        if mine is None or mine.public_key != self._public:
            mine = GatewayKey(self.gateway, self._public)
        living = {name: key for name, key in keys.items() if name in table.gateways}
        living[self.gateway] = mine
        newest = max((key.key_number for key in keys.values()), default=0)
        has_it = self._number == newest == mine.key_number > 0
        gone = tuple(sorted(keys.keys() - living.keys())) if table.settled else ()
        if has_it:
            return KeyChanges(tuple(self._seal(living, self._key, newest)), gone)
        others = {*keys} - {self.gateway}
        holders = {name for name in others if keys[name].key_number == newest > 0}
        if holders & living.keys() or (others and not table.settled):
            return KeyChanges(() if mine == keys.get(self.gateway) else (mine,))
        fresh = self._random_bytes(_KEY_BYTES)
        return KeyChanges(tuple(self._seal(living, fresh, newest + 1)), gone)

    def _seal(
        self, living: Mapping[str, GatewayKey], key: bytes, number: int
    ) -> Iterator[GatewayKey]:
        """Yield the key sealed to each gateway that does not have it under this number."""
        for each in living.values():
            if each.key_number != number:
                to = replace(each, key_number=number)
                public = X25519PublicKey.from_public_bytes(each.public_key)
                yield replace(to, sealed_key=_HPKE.encrypt(key, public, _about(to)))


def _about(key: GatewayKey) -> bytes:
    return b"\0".join((_LABEL, key.key_number.to_bytes(8), key.gateway.encode()))
