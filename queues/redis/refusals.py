"""Says why a Redis that answers does not serve, by name, and what an operator does about it.

A server that is away comes back by itself. One that refuses goes on refusing until somebody mends
it: a replica, a node of a cluster, a full memory, a user who may not. The two are told apart by
what the server answers, and by nothing that this side guesses.

`REFUSALS` is looked through in order; the words are those of the servers. Neither a URL nor a
password is in what is said: servers name the user and the command alone.
"""

import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from redis import exceptions

SAID_CHARS_MAX: Final = 200
"""How much of a server's own words is told."""


@dataclass(frozen=True, slots=True)
class RedisRefusal:
    """A reason for which a server goes on refusing."""

    name: str
    what: str
    todo: str


@dataclass(frozen=True, slots=True)
class RedisProblem:
    """Why Redis cannot be used now."""

    state: str
    """`away` or `refused`."""

    name: str
    """The name of the refusal; of a server that is away, the kind of the error."""

    what: str
    todo: str

    @property
    def code(self) -> str:
        """The code of the `QueueError` by which a caller learns of it."""
        return "queue_refused" if self.state == "refused" else "queue_unavailable"

    def __str__(self) -> str:
        if self.state == "away":
            return self.name
        return f"{self.state}: {self.name}: {self.what}; do: {self.todo}"


_NAME_SENTINELS: Final = (
    "name the primary in ROTULUS_REDIS_URL, or the sentinels that know it:"
    " redis+sentinel://HOST:PORT,HOST:PORT/MASTER"
)
_NAME_CLUSTER: Final = "name the cluster in ROTULUS_REDIS_URL: redis+cluster://HOST:PORT,HOST:PORT"

REFUSALS: Final[tuple[tuple[str, RedisRefusal], ...]] = (
    (
        r"ReadOnlyError|\bREADONLY\b",
        RedisRefusal("read_only", "the server is a replica and takes no writes", _NAME_SENTINELS),
    ),
    (
        r"\b(MOVED|ASK|CROSSSLOT|CLUSTERNODE)\b|SELECT is not allowed in cluster mode",
        RedisRefusal("cluster_node", "the server is a node of a Redis Cluster", _NAME_CLUSTER),
    ),
    (
        r"\b(CLUSTERDOWN|TRYAGAIN)\b",
        RedisRefusal(
            "cluster_down",
            "the cluster has no node for our keys",
            "bring back the node that is down, or let its replica take over",
        ),
    ),
    (
        r"\bNOCLUSTER\b|cluster support disabled",
        RedisRefusal(
            "no_cluster",
            "the server is no node of a cluster",
            "name it in ROTULUS_REDIS_URL as redis://HOST:PORT",
        ),
    ),
    (
        r"\bSENTINELNODE\b",
        RedisRefusal(
            "sentinel_node", "the server is a sentinel and keeps no keys", _NAME_SENTINELS
        ),
    ),
    (
        r"\bNOMASTER\b|unknown command '?.?SENTINEL",
        RedisRefusal(
            "master_unknown",
            "the sentinels know no master of the name in ROTULUS_REDIS_URL",
            "write the name that `sentinel monitor` gives the master behind the sentinels",
        ),
    ),
    (
        r"OutOfMemoryError|\bOOM\b",
        RedisRefusal(
            "out_of_memory",
            "the server has no memory left for a write",
            "give it more maxmemory, with maxmemory-policy noeviction",
        ),
    ),
    (
        r"NoPermissionError|\bNOPERM\b|can't run this command|no permissions? to",
        RedisRefusal(
            "not_permitted",
            "the user may not use a key or a command that is needed",
            "give the user the rules of deploy/redis.acl, for the prefix of ROTULUS_REDIS_PREFIX",
        ),
    ),
    (
        r"Authentication(?:WrongNumberOfArgs)?Error|\b(WRONGPASS|NOAUTH)\b|called without any pass",
        RedisRefusal(
            "wrong_password",
            "the server does not accept the user and the password",
            "write the user and the password that the server knows into ROTULUS_REDIS_URL",
        ),
    ),
    (
        r"DB index is out of range|invalid DB index|Invalid Database",
        RedisRefusal(
            "wrong_index",
            "the server has no database of this number",
            "write a number below the server's `databases` behind the slash of ROTULUS_REDIS_URL",
        ),
    ),
    (
        r"BusyLoadingError|\bLOADING\b",
        RedisRefusal("loading", "the server reads its data from the disk", "wait until it is done"),
    ),
    (
        r"\bMASTERDOWN\b",
        RedisRefusal(
            "master_down", "the server is a replica that lost its primary", _NAME_SENTINELS
        ),
    ),
    (
        r"\bMISCONF\b",
        RedisRefusal(
            "disk_refuses",
            "the server cannot save to its disk and takes no writes",
            "make room on its disk, or set stop-writes-on-bgsave-error to no: no key is needed"
            " after a loss",
        ),
    ),
    (
        r"\bNOREPLICAS\b",
        RedisRefusal(
            "too_few_replicas",
            "the server has fewer replicas than min-replicas-to-write and takes no writes",
            "bring back its replicas",
        ),
    ),
    (
        r"\bBUSY\b",
        RedisRefusal(
            "busy", "the server runs somebody's script without an end", "SCRIPT KILL on it"
        ),
    ),
    (
        r"max number of clients",
        RedisRefusal(
            "too_many_clients",
            "the server takes no more connections",
            "raise its maxclients, or start fewer processes",
        ),
    ),
    (
        r"unknown command|Unknown Redis command",
        RedisRefusal(
            "command_missing",
            "the server does not know a command that is needed",
            "give it the command back (rename-command), or use Redis from 6.2 or Valkey",
        ),
    ),
    (
        r"InvalidResponse|SSLError|SSLCert|\bSSL\b",
        RedisRefusal(
            "other_protocol",
            "what listens there speaks something else",
            "see whether it is a Redis, and whether it wants TLS (rediss://) or none (redis://)",
        ),
    ),
)
"""The patterns of what is answered, each with the refusal that it means."""

OTHER: Final = RedisRefusal("refused", "the server answers with an error", "see its log")

_PASSES: Final = re.compile(r"\bUNBLOCKED\b|\bNOSCRIPT\b")
_COMPILED: Final = tuple((re.compile(words), refusal) for words, refusal in REFUSALS)
_REPLIES: Final = (exceptions.ResponseError, exceptions.InvalidResponse)


def refusal_of(error: BaseException) -> RedisRefusal | None:
    """Return what refusal an error is; None for a server that is away."""
    said = [f"{type(each).__name__} {each}" for each in _causes(error)]
    for pattern, refusal in _COMPILED:
        if any(pattern.search(text) for text in said):
            return refusal
    is_reply = isinstance(error, _REPLIES) and not any(map(_PASSES.search, said))
    return OTHER if is_reply else None


def problem_of(error: BaseException) -> RedisProblem:
    """Return what an error says of Redis, with its own words where it refuses."""
    refusal = refusal_of(error)
    if refusal is None:
        return RedisProblem("away", type(error).__name__, "it does not answer", "start it")
    words = " ".join(str(error).split())[:SAID_CHARS_MAX]
    what = f"{refusal.what} ({words})" if words else refusal.what
    return RedisProblem("refused", refusal.name, what, refusal.todo)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the one that it was raised for, as a connection wraps them."""
    yield error
    if isinstance(error.__cause__, exceptions.RedisError | ssl.SSLError | OSError):
        yield error.__cause__
