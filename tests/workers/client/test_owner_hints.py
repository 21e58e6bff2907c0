"""A client asks the owner of a session directly, and nobody that no configured gateway knows."""

import httpx
import pytest

from workers.client.errors import GatewayError
from workers.client.gateway_http import GatewayHttp
from workers.client.owner_hints import SESSIONS_MAX, TABLE_AGE_S, OwnerHints
from workers.client.session_operations import SessionOperations

pytestmark = pytest.mark.anyio

BALANCER = "http://balancer:8440"
OWNER = "http://owner:8440"
STRANGER = "http://stranger:8440"
PATH = "/v1/sessions/s-1/eliminate"
RESULT = b'{"line":1,"result":{"validation_result":"accepted"}}\n'


class Fleet:
    """Gateways behind a transport, which notes who was asked for what."""

    def __init__(self, table=(OWNER,), hint=OWNER, owner=None):
        self.asked = []
        self.table = table
        self.hint = hint
        self.owner = owner or (lambda _: httpx.Response(200, json={"by": "owner"}))

    def __call__(self, request):
        base = f"{request.url.scheme}://{request.url.host}:{request.url.port}"
        self.asked.append((base, request.url.path))
        if request.url.path == "/v1/gateways":
            if self.table is None:
                return httpx.Response(404)
            rows = [{"gateway": url, "url": url} for url in self.table]
            return httpx.Response(200, json={"gateways": rows})
        if request.url.host != "balancer":
            return self.owner(request)
        headers = {"Rotulus-Owner": self.hint} if self.hint else {}
        if request.url.path.endswith(":bulk"):
            return httpx.Response(200, content=RESULT, headers=headers)
        return httpx.Response(200, json={"by": "balancer"}, headers=headers)

    def asked_of(self, base):
        return [path for asked_base, path in self.asked if asked_base == base]


def client(fleet, url=BALANCER, **options):
    async def no_pause(_):
        pass

    transport = httpx.MockTransport(fleet)
    return GatewayHttp(url, transport=transport, sleep=no_pause, **options)


async def by(gateway, path=PATH, **options):
    return (await gateway.ask("POST", path, json={"x": 1}, **options)).json()["by"]


async def test_after_one_answer_with_a_hint_the_owner_is_asked_directly():
    fleet = Fleet()
    async with client(fleet) as gateway:
        assert [await by(gateway) for _ in range(3)] == ["balancer", "owner", "owner"]
        assert await by(gateway, "/v1/sessions/s-2/eliminate") == "balancer"
    assert fleet.asked_of(BALANCER).count("/v1/gateways") == 1
    assert "/v1/gateways" not in fleet.asked_of(OWNER)


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ((OWNER,), STRANGER),
        ((), OWNER),
        (None, OWNER),
        (("http://user:pw@owner:8440",), "http://user:pw@owner:8440"),
        (("ftp://owner:8440",), "ftp://owner:8440"),
        (("no url",), "no url"),
        ((7,), OWNER),
    ],
)
async def test_nothing_is_sent_to_a_url_that_is_not_in_the_table(table, hint):
    fleet = Fleet(table, hint)
    async with client(fleet) as gateway:
        assert [await by(gateway) for _ in range(3)] == ["balancer"] * 3
    assert {base for base, _ in fleet.asked} == {BALANCER}
    assert fleet.asked_of(BALANCER).count("/v1/gateways") == 1


async def test_a_url_of_an_owner_that_says_who_else_owns_is_held_to_the_same_table():
    def owner(_):
        return httpx.Response(200, json={"by": "owner"}, headers={"Rotulus-Owner": STRANGER})

    fleet = Fleet(owner=owner)
    async with client(fleet) as gateway:
        assert [await by(gateway) for _ in range(3)] == ["balancer", "owner", "owner"]
    assert fleet.asked_of(STRANGER) == []


@pytest.mark.parametrize("owner", [OWNER, "https://owner:8440"])
async def test_who_is_asked_over_tls_hands_on_to_nobody_without(owner):
    fleet = Fleet((OWNER, "https://owner:8440"), owner)
    balancer = BALANCER.replace("http:", "https:")
    async with client(fleet, balancer) as gateway:
        await by(gateway)
        await by(gateway)
    assert fleet.asked_of(OWNER) == []
    assert fleet.asked_of("https://owner:8440") == [PATH] * owner.startswith("https:")


def test_the_table_is_asked_for_once_in_a_while_and_replaces_the_one_before():
    hints = OwnerHints()
    assert hints.is_new(OWNER, 0.0)
    assert not hints.is_new(OWNER, TABLE_AGE_S - 0.1)
    assert hints.is_new(OWNER, TABLE_AGE_S)
    hints.use_table([OWNER])
    hints.learn(PATH, OWNER)
    assert not hints.is_new(OWNER, 5 * TABLE_AGE_S)
    hints.use_table([STRANGER])
    assert hints.place(PATH) == PATH


def test_so_many_owners_are_kept_and_no_more():
    hints = OwnerHints()
    hints.use_table([OWNER])
    for number in range(SESSIONS_MAX + 1):
        hints.learn(f"/v1/sessions/{number}/x", OWNER)
    assert hints.place("/v1/sessions/0/x") == "/v1/sessions/0/x"
    assert hints.place(f"/v1/sessions/{SESSIONS_MAX}/x").startswith(OWNER)


def refused_connection(request):
    raise httpx.ConnectError("refused", request=request)


@pytest.mark.parametrize(
    "wrong",
    [
        refused_connection,
        lambda _: httpx.Response(503, json={"error": {"code": "shard_unowned", "message": ""}}),
        lambda _: httpx.Response(403, json={"error": {"code": "host_unknown", "message": ""}}),
        lambda _: httpx.Response(404, text="<html>another server</html>"),
        lambda _: httpx.Response(301, headers={"Location": STRANGER}),
    ],
)
async def test_a_hint_that_is_wrong_leads_back_to_the_configured_gateway(wrong):
    fleet = Fleet(owner=wrong)
    async with client(fleet) as gateway:
        assert [await by(gateway) for _ in range(2)] == ["balancer"] * 2
    assert len(fleet.asked_of(OWNER)) == 1
    assert fleet.asked_of(STRANGER) == []


async def test_what_must_not_happen_twice_is_not_repeated_elsewhere_when_it_may_have_happened():
    def owner(request):
        raise httpx.ReadError("cut off", request=request)

    fleet = Fleet(owner=owner)
    async with client(fleet) as gateway:
        assert await by(gateway) == "balancer"
        with pytest.raises(GatewayError) as refused:
            await by(gateway, may_repeat=lambda _: False)
        assert refused.value.code == "gateway_unreachable"
        assert await by(gateway) == "balancer"


async def test_what_the_owner_refuses_is_the_answer():
    def owner(_):
        return httpx.Response(409, json={"error": {"code": "head_differs", "message": "no"}})

    fleet = Fleet(owner=owner)
    async with client(fleet) as gateway:
        assert await by(gateway) == "balancer"
        with pytest.raises(GatewayError) as refused:
            await by(gateway)
    assert refused.value.code == "head_differs"


async def test_a_stream_goes_to_the_owner_and_comes_back_when_that_is_wrong():
    wrong = []

    def owner(request):
        if wrong:
            return wrong[0](request)
        return httpx.Response(200, content=RESULT)

    fleet = Fleet(owner=owner)
    async with client(fleet) as gateway:
        operations = SessionOperations(gateway, "s-1")

        async def submit():
            return [outcome.result async for outcome in operations.submit([{"intent_key": "k"}])]

        assert await submit() == await submit() == [{"validation_result": "accepted"}]
        assert len(fleet.asked_of(OWNER)) == 1
        for broken in (refused_connection, lambda _: httpx.Response(404, text="another server")):
            wrong[:] = [broken]
            assert await submit() == [{"validation_result": "accepted"}]
    assert len(fleet.asked_of(OWNER)) == 3
