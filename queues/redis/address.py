"""Finds the address of the writable Redis: a server, what sentinels say, or a node of a cluster.

These are three ways to the address of one server. Behind it there is a plain connection, so nothing
else knows of sentinels or clusters. A cluster serves a ledger by one of its nodes: every key of the
ledger carries one hash tag (decision queues/0090).

    redis://[[USER]:PASSWORD@]HOST[:PORT][/INDEX]            rediss://… with TLS, unix://PATH
    redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT],…/MASTER[/INDEX]
    redis+cluster://[[USER]:PASSWORD@]HOST[:PORT],…

`rediss+sentinel` and `rediss+cluster` use TLS to every server named or found. Behind a question
mark stand the parameters of redis-py, and `sentinel_username` and `sentinel_password` of the
sentinels themselves. The address is asked for again when a connection cannot be made, when a server
says that it is not the one, and by whoever watches (`redis/watch.py`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import anyio
from redis.asyncio.connection import AbstractConnection, parse_url
from redis.crc import key_slot
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError, ResponseError

from queues.redis.keys import URL_SCHEMES

Way = Literal["single", "sentinel", "cluster"]
Address = tuple[str, int]

SEEDS_MAX: Final = 64
ASK_S: Final = 1.0
"""How long one sentinel or node may take to say where the server is."""

AGAIN_S: Final = 0.1
"""Within this time nobody asks a second time, however many connections are lost at once."""

_FOREIGN: Final = (ValueError, TypeError, IndexError)
"""Raised where what answers is no list of addresses."""

_PORTS: Final = {"single": 6379, "sentinel": 26379, "cluster": 6379}
_MASTER: Final = re.compile(r"[\w.:-]{1,200}")
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:/?#@\s]+)(?::(\d{1,5}))?")
_OF_SENTINELS: Final = {"sentinel_username": "username", "sentinel_password": "password"}


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A URL of the settings, taken apart."""

    way: Way
    plain: str = field(repr=False)
    """The URL of a single server, which redis-py reads; of others, with the first host."""

    seeds: tuple[Address, ...] = ()
    """The sentinels or nodes that are asked where the server is."""

    master: str = ""
    sentinel_login: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def parse_redis_url(url: str) -> RedisUrl:
    """Take a URL apart; what is said of a bad one holds nothing of it.

    Raises:
        ValueError: it is no such URL, or redis-py does not know a parameter.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("must be a URL of a Redis") from None
    if parts.scheme not in URL_SCHEMES:
        names = ", ".join(f"{scheme}://" for scheme in URL_SCHEMES)
        raise ValueError(f"must be a URL that starts with {names}")
    scheme, _, way = parts.scheme.partition("+")
    if not way:
        if scheme != "unix":
            _check_index(parts.path.removeprefix("/"))
            list(_hosts(parts.netloc.rpartition("@")[2], "single", most=1))
        _check_parameters(url)
        return RedisUrl("single", url)
    login, at, hosts = parts.netloc.rpartition("@")
    seeds = tuple(_hosts(hosts, way, SEEDS_MAX))
    master, _, index = parts.path.strip("/").partition("/")
    if way == "cluster":
        if parts.path.strip("/") not in ("", "0"):
            raise ValueError("a cluster has no database but 0")
        master, index = "", ""
    elif not _MASTER.fullmatch(master):
        raise ValueError("must name the sentinels' master behind the hosts: …/MASTER")
    _check_index(index)
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    login_of = tuple((_OF_SENTINELS[k], v) for k, v in parameters if k in _OF_SENTINELS)
    others = urlencode([(k, v) for k, v in parameters if k not in _OF_SENTINELS], quote_via=quote)
    host, port = seeds[0]
    shown = f"[{host}]" if ":" in host else host
    plain = f"{scheme}://{login}{at}{shown}:{port}/{index}" + (f"?{others}" if others else "")
    _check_parameters(plain)
    return RedisUrl(way, plain, seeds, master, login_of)  # type: ignore[arg-type]  # of the schemes


def _hosts(text: str, way: str, most: int) -> Iterator[Address]:
    hosts = text.split(",")
    if len(hosts) > most:
        raise ValueError(f"names {len(hosts)} hosts, at most {most}")
    for host in hosts:
        match = _HOST.fullmatch(host)
        if match is None and not (way == "single" and not host):
            raise ValueError("must name a host, or HOST:PORT; other characters are %-encoded")
        name, port = match.groups() if match else ("localhost", None)
        if port is not None and not 0 < int(port) < 1 << 16:
            raise ValueError("names a port that is none")
        yield name.strip("[]"), int(port or _PORTS[way])


def _check_index(text: str) -> None:
    if text and not (text.isascii() and text.isdecimal()):
        raise ValueError("must end with the number of a database behind the slash, or with nothing")


def _check_parameters(plain: str) -> None:
    arguments = dict(parse_url(plain))
    kind = arguments.pop("connection_class", None)
    for options in ("max_connections", "timeout"):
        arguments.pop(options, None)
    try:
        _class_of(kind)(**arguments)
    except TypeError:
        raise ValueError("has a parameter that redis-py does not know") from None
    except Exception:  # noqa: BLE001 - whatever it is, it may hold a part of the URL
        raise ValueError("has a parameter with a value that redis-py cannot use") from None


def _class_of(kind: Any) -> Any:
    from redis.asyncio.connection import Connection  # noqa: PLC0415 - beside its one use

    return kind or Connection


class RedisPlace:
    """The address of the server behind a URL, as it was found last."""

    def __init__(self, url: RedisUrl, key_prefix: str) -> None:
        self.way = url.way
        self.found: Address | None = None
        """The address that counts; None while it is not known."""

        self._url = url
        self._slot = key_slot(key_prefix.encode())
        self._asked = list(url.seeds)
        """Whom to ask, the one that answered last first."""

        self._asked_at_s = float("-inf")
        self._lock = anyio.Lock()

    def forget(self) -> None:
        """Find the address anew before the next connection."""
        if self.way != "single":
            self.found = None

    async def address(self) -> Address | None:
        """Return the address, asking for it where it is not known; None where the URL has it.

        Raises:
            ConnectionLost: nobody who is asked answers.
            ResponseError: those who answer know none.
        """
        if self.way == "single":
            return None
        if self.found is None:
            await self.look()
        return self.found

    async def look(self) -> bool:
        """Ask for the address; tell whether it is another one than before.

        Raises:
            ConnectionLost, ResponseError: as of `address`.
        """
        if self.way == "single":
            return False
        async with self._lock:
            before = self.found
            if before is None or anyio.current_time() - self._asked_at_s >= AGAIN_S:
                self.found = await self._ask_each()
                self._asked_at_s = anyio.current_time()
            return before != self.found

    async def _ask_each(self) -> Address:
        refused: Exception | None = None
        for seed in tuple(self._asked):
            try:
                with anyio.fail_after(ASK_S):
                    address = await self._ask(seed)
            except ResponseError as error:
                refused = error
            except (RedisError, OSError, TimeoutError, *_FOREIGN) as error:
                refused = refused or (error if _is_login(error) else None)
            else:
                self._asked.remove(seed)
                self._asked.insert(0, seed)
                return address
        if refused is not None:
            raise refused
        who = "sentinel" if self.way == "sentinel" else "node of the cluster"
        raise ConnectionLost(f"no {who} answers, of {len(self._asked)} that are known")

    async def _ask(self, seed: Address) -> Address:
        if self.way == "sentinel":
            said = await self._say(seed, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._url.master)
            if not said:
                raise ResponseError("NOMASTER")
            return _text(said[0]) or seed[0], int(said[1])
        rows = await self._say(seed, "CLUSTER", "SLOTS")
        nodes = [(_text(node[0]) or seed[0], int(node[1])) for row in rows for node in row[2:]]
        known = dict.fromkeys((*self._asked, *nodes))
        self._asked = [*known][:SEEDS_MAX]
        for first, last, (host, port, *_), *_ in rows:
            if first <= self._slot <= last:
                return _text(host) or seed[0], int(port)
        raise ResponseError("CLUSTERDOWN no node serves the slot of our keys")

    async def _say(self, seed: Address, *command: str) -> Sequence[Any]:
        arguments: dict[str, Any] = dict(parse_url(self._url.plain))
        kind = _class_of(arguments.pop("connection_class", None))
        arguments.pop("max_connections", None)
        if self.way == "sentinel":
            for name in ("username", "password", "db"):
                arguments.pop(name, None)
            arguments |= dict(self._url.sentinel_login)
        arguments |= {"host": seed[0], "port": seed[1], "socket_connect_timeout": ASK_S}
        connection: AbstractConnection = kind(**arguments)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            await connection.send_command(*command)
            reply: Sequence[Any] = await connection.read_response() or ()
        finally:
            await connection.disconnect(nowait=True)
        return reply


def _is_login(error: Exception) -> bool:
    """Whether a connection was refused for its user and password, which redis-py calls lost."""
    return "Authentication" in type(error).__name__


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
