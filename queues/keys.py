"""The type of every key of a fixed name, by what its prefix is of."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_RANKS: Final = range(5)
_LEASE_RANKS: Final = range(3)

QUEUE: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{f"ready:{rank}": "zset" for rank in _RANKS},
        **{f"suspended:{rank}": "zset" for rank in _RANKS},
        **dict.fromkeys(("delayed", "in-flight", "dead"), "zset"),
        "paused": "hash",
        **{f"wake:{rank}": "list" for rank in _RANKS},
        **dict.fromkeys(("stamp", "sleeping", "mark", "clock"), "string"),
    }
)
LEASE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "expiries": "zset",
        "tokens": "hash",
        "holds": "hash",
        **dict.fromkeys(("fence", "clock"), "string"),
        **{f"waiting:{rank}": "zset" for rank in _LEASE_RANKS},
    }
)
WORKERS: Final[Mapping[str, str]] = MappingProxyType(
    {"expiries": "zset", "seen": "hash", "beats": "hash", "clock": "string"}
)
GATEWAYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "alive": "zset",
        "incarnations": "hash",
        "owners": "hash",
        "table": "hash",
        "clock": "string",
    }
)
SHARD: Final[Mapping[str, str]] = MappingProxyType(
    {"mail": "stream", "mailbox": "string", "taken": "hash", "aside": "hash"}
)
INBOX: Final[Mapping[str, str]] = MappingProxyType({"inbox": "list"})

_OF_OTHERS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        **dict.fromkeys(("beat", "alive", "leave"), WORKERS),
        **dict.fromkeys(("gateway_beat", "shard_claim", "shard_release"), GATEWAYS),
        **dict.fromkeys(
            ("mail_post", "mail_read", "mail_set_aside", "mail_put_back", "mail_list_aside"), SHARD
        ),
        "inbox_take": INBOX,
        "mend": MappingProxyType({}),
    }
)


def key_types(script: str) -> Mapping[str, str]:
    """Return the keys that a script may rely on, by their name behind its prefix."""
    if script.startswith("lease_"):
        return LEASE
    return _OF_OTHERS.get(script, QUEUE)
