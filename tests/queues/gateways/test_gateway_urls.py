"""The URLs that gateways advertise: read by each other, and made up by nobody in Redis."""

import pytest
from fakeredis import FakeAsyncRedis

from queues.gateways.gateway_urls import KEPT_MS, GatewayUrls
from queues.gateways.message_seal import MessageSeal

pytestmark = pytest.mark.anyio

KEY = b"k" * 32
A, B = "https://a.example:8440", "https://b.example:8440"


class Fleet:
    def __init__(self):
        self.redis = FakeAsyncRedis()
        self.living = {"a", "b"}
        self.now_ms = 1_000_000

    def gateway(self, name, url, key=KEY):
        return GatewayUrls(
            self.redis, name, MessageSeal(key), url, lambda: self.living, lambda: self.now_ms
        )


@pytest.fixture
async def fleet(anyio_backend):
    fleet = Fleet()
    yield fleet
    await fleet.redis.aclose()


async def test_the_living_that_advertise_a_url_are_known_with_it(fleet):
    a, b = fleet.gateway("a", A), fleet.gateway("b", B)
    await a.look()
    await b.look()
    await a.look()
    assert a.urls == b.urls == {"a": A, "b": B}
    fleet.living = {"a"}
    assert a.urls == {"a": A}


async def test_who_has_no_url_advertises_none(fleet):
    a, b = fleet.gateway("a", None), fleet.gateway("b", B)
    await b.look()
    await a.look()
    assert a.urls == {"b": B}


async def test_a_url_is_no_longer_known_a_minute_after_it_was_advertised(fleet):
    a = fleet.gateway("a", None)
    await fleet.gateway("b", B).look()
    fleet.now_ms += KEPT_MS + 1
    await a.look()
    assert a.urls == {}


@pytest.mark.parametrize("value", [b"", b"https://stranger", b"x" * 10_000, b"\x01" + bytes(60)])
async def test_what_redis_makes_up_is_no_url(fleet, value):
    await fleet.redis.set("rotulus:{gateways}:url:b", value)
    a = fleet.gateway("a", A)
    await a.look()
    assert a.urls == {"a": A}


async def test_a_url_that_was_sealed_for_another_name_or_under_another_key_is_none(fleet):
    await fleet.gateway("b", B).look()
    sealed = await fleet.redis.get("rotulus:{gateways}:url:b")
    await fleet.redis.set("rotulus:{gateways}:url:a", sealed)
    await fleet.gateway("b", "https://stranger", key=b"s" * 32).look()
    a = fleet.gateway("a", None)
    await a.look()
    assert a.urls == {}
