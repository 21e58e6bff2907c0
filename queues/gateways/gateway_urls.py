"""Keeps the URLs at which gateways want to be asked, where they advertise one.

Each gateway leaves its URL in Redis, sealed under the key of the gateways' mail for its own name,
for a minute at a time, and reads those of the living. Redis can neither read nor make one up, so it
cannot send a client anywhere (decision queues/0069).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import anyio
import structlog
from redis.asyncio import Redis

from queues.errors import QueueError
from queues.gateways.message_seal import MessageSeal
from queues.queue.items import check_name
from queues.redis.keys import prefix_of
from queues.redis.scripts import Scripts

EVERY_S: Final = 2.0
KEPT_MS: Final = 60_000
SEALED_BYTES_MAX: Final = 4096

_log = structlog.get_logger(__name__)


class GatewayUrls:
    """The URLs of the gateways of a ledger, as one of them knows them; run `run` in a task group.

    `url` is its own, None where nobody is to ask it directly.
    """

    def __init__(
        self,
        redis: Redis,
        gateway: str,
        seal: MessageSeal,
        url: str | None,
        living: Callable[[], Collection[str]],
        now_ms: Callable[[], int],
    ) -> None:
        self._redis = redis
        self._prefix = prefix_of(redis, "gateways") + "url:"
        self._scripts = Scripts(redis, self._prefix)
        self._gateway = check_name(gateway)
        self._seal = seal
        self._url = url
        self._living = living
        self._now_ms = now_ms
        self._urls: dict[str, str] = {}

    @property
    def urls(self) -> Mapping[str, str]:
        """The URL of each living gateway that advertises one."""
        living = self._living()
        return {name: url for name, url in self._urls.items() if name in living}

    async def run(self) -> None:
        """Advertise and read until cancelled; while Redis is away what was read stays."""
        while True:
            try:
                await self.look()
            except QueueError as error:
                _log.debug("gateway_urls_not_read", code=error.code)
            await anyio.sleep(EVERY_S)

    async def look(self) -> None:
        """Advertise this gateway's URL for another minute, and read those of the living.

        Raises:
            QueueError: `queue_unavailable`, `mail_key_missing`.
        """
        if self._url is not None:
            until_ms = self._now_ms() + KEPT_MS
            sealed = self._seal.close("url", self._gateway, "", until_ms, self._url.encode())
            key = f"{self._prefix}{self._gateway}"
            await self._scripts.ask(self._redis.set(key, sealed, px=KEPT_MS))
        urls: dict[str, str] = {}
        for name in sorted(self._living()):
            reply: Any = self._redis.getrange(f"{self._prefix}{name}", 0, SEALED_BYTES_MAX - 1)
            url = self._open_url(name, await self._scripts.ask(reply))
            if url is not None:
                urls[name] = url
        self._urls = urls

    def _open_url(self, gateway: str, sealed: bytes) -> str | None:
        opened = self._seal.open("url", gateway, sealed)
        if opened is None or opened.expires_at_ms < self._now_ms():
            return None
        url = opened.content.decode("latin-1")
        return url if url.isascii() and url.isprintable() else None
