"""A browser that logs in by a provider: its cookies, its roles, and what ends its session."""

from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
import pytest

from kernel.records.access.actions import Grant
from kernel.records.access.errors import AccessRefused
from kernel.records.access.records import AccessDecision, access_record
from tests.kernel.build import HOUR_US, FakeHost
from tests.workers.api.door import URL, Door, error_of, running_door
from tests.workers.api.openid_provider import ISSUER, FakeProvider, signed
from tests.workers.api.test_access import token_in
from workers.use_cases.access import COOKIE, AccessChanges

pytestmark = pytest.mark.anyio

BY_TEST = AccessDecision("person:owner", "for a test")
HTML = {"Accept": "text/html"}
FROM_PROVIDER = HTML | {
    "Sec-Fetch-Site": "cross-site",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
}
FAKE = FakeHost()


@pytest.fixture
def provider() -> FakeProvider:
    return FakeProvider(lambda: FAKE.time_us // 1_000_000)


@pytest.fixture
async def closed(provider: FakeProvider) -> AsyncIterator[Door]:
    async with running_door(host=FAKE.host, takes_keys=True, provider=provider.login()) as door:
        yield door


async def grant(door: Door, principal: str, role: str, *, stands: bool = True) -> None:
    changes = AccessChanges(door.services.write, door.ledger.host)
    await changes.change_grant(Grant(principal, role), BY_TEST, stands=stands)
    assert door.services.door is not None
    await door.services.door.table.refresh()


def cookies_of(response: httpx.Response) -> dict[str, str]:
    lines = response.headers.get_list("set-cookie")
    return {line.partition("=")[0]: line.partition("=")[2] for line in lines}


async def begun(door: Door, way: str = "") -> tuple[str, dict[str, str]]:
    """Begin a login; return where the browser is sent, and the cookie that it keeps."""
    path = f"/login/provider?next={quote(way, safe='')}"
    response = await door.http.get(path, headers=HTML)
    assert response.status_code == 303
    [(name, value)] = cookies_of(response).items()
    assert name == "__Host-rotulus-login"
    for attribute in ("Secure", "HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=600"):
        assert attribute in value
    return response.headers["location"], {"Cookie": f"{name}={value.partition(';')[0]}"}


async def answered(door: Door, answer: dict[str, str], cookie: dict[str, str]) -> httpx.Response:
    headers = FROM_PROVIDER | cookie
    return await door.http.get("/login/provider/answer", params=answer, headers=headers)


async def logged_in(door: Door, provider: FakeProvider, way: str = "") -> dict[str, str]:
    address, cookie = await begun(door, way)
    response = await answered(door, provider.authorize(address), cookie)
    assert response.status_code == 200, response.text
    assert "Max-Age=0" in cookies_of(response)["__Host-rotulus-login"]
    session = cookies_of(response)[COOKIE]
    assert "SameSite=Strict" in session
    return {
        "Cookie": f"{COOKIE}={session.partition(';')[0]}",
        "Refresh": response.headers["refresh"],
    }


async def test_a_browser_goes_to_the_provider_and_comes_back_to_the_page_it_asked_for(
    closed: Door, provider: FakeProvider
):
    await grant(closed, "group:auditors", "auditor")
    page = (await closed.http.get("/login?next=operations", headers=HTML)).text
    assert 'href="./login/provider?next=operations"' in page
    address, _ = await begun(closed)
    assert address.startswith(f"{ISSUER}/authorize?")
    cookie = await logged_in(closed, provider, "operations?order=newest")
    assert cookie.pop("Refresh") == "0; url=../../operations?order=newest"
    shown = await closed.http.get("/operations", headers=HTML | cookie)
    assert "Logged in as person:ada (auditor)" in shown.text
    error_of(await closed.http.get("/queues/x/pause", headers=cookie), 405, "method_not_allowed")


async def test_roles_are_those_of_the_groups_as_they_are_granted_now(
    closed: Door, provider: FakeProvider
):
    await grant(closed, "group:auditors", "auditor")
    cookie = await logged_in(closed, provider)
    assert (await closed.http.get("/v1/log", headers=cookie)).status_code == 200
    await grant(closed, "group:auditors", "auditor", stands=False)
    error_of(await closed.http.get("/v1/log", headers=cookie), 403, "access_denied")
    await grant(closed, "person:ada", "reviewer")
    assert (await closed.http.get("/v1/log", headers=cookie)).status_code == 200
    [key] = closed.ledger.read(access_record).keys
    assert (key.principal, key.groups) == ("person:ada", ("auditors",))


async def test_whom_nobody_granted_anything_is_not_logged_in(closed: Door, provider: FakeProvider):
    address, cookie = await begun(closed)
    refused = await answered(closed, provider.authorize(address), cookie)
    assert refused.status_code == 401
    assert "nobody granted a role to person:ada" in refused.text
    assert COOKIE not in cookies_of(refused)
    assert closed.ledger.read(access_record).keys == ()


async def test_an_answer_counts_in_the_browser_that_began_alone(
    closed: Door, provider: FakeProvider
):
    await grant(closed, "person:ada", "auditor")
    address, cookie = await begun(closed)
    answer = provider.authorize(address)
    _, other = await begun(closed)
    for wrong in ({}, other, {"Cookie": "__Host-rotulus-login=junk"}):
        refused = await answered(closed, answer, wrong)
        assert refused.status_code == 401
        assert COOKIE not in cookies_of(refused)
    assert (await answered(closed, answer, cookie)).status_code == 200
    assert (await answered(closed, answer, cookie)).status_code == 401, "a code counts once"


async def test_a_session_ends_after_twelve_hours_with_a_logout_and_when_it_is_revoked(
    closed: Door, provider: FakeProvider
):
    await grant(closed, "person:ada", "auditor")
    first, second, third = [await logged_in(closed, provider) for _ in range(3)]
    form = {"Origin": URL, "Content-Type": "application/x-www-form-urlencoded"}
    page = await closed.http.get("/operations", headers=HTML | first)
    out = await closed.http.post("/logout", content=token_in(page), headers=form | first)
    assert out.status_code == 303
    error_of(await closed.http.get("/v1/log", headers=first), 401, "unauthenticated")
    key_id = second["Cookie"].partition("=rot_")[2].partition("_")[0]
    changes = AccessChanges(closed.services.write, closed.ledger.host)
    await changes.revoke_key(key_id, BY_TEST)
    assert closed.services.door is not None
    await closed.services.door.table.refresh()
    error_of(await closed.http.get("/v1/log", headers=second), 401, "unauthenticated")
    assert (await closed.http.get("/v1/log", headers=third)).status_code == 200
    FAKE.time_us += 12 * HOUR_US
    error_of(await closed.http.get("/v1/log", headers=third), 401, "unauthenticated")


@pytest.mark.parametrize("way", ["//evil.example/", "http://evil.example/", "\r\nRefresh: 0; x"])
async def test_a_login_leads_nowhere_else(closed: Door, provider: FakeProvider, way: str):
    await grant(closed, "person:ada", "auditor")
    refresh = (await logged_in(closed, provider, way))["Refresh"]
    assert refresh.startswith("0; url=../../")
    assert not refresh.startswith("0; url=../..//")
    assert "\r" not in refresh


async def test_a_provider_that_is_away_is_said_and_keys_count_on(
    closed: Door, provider: FakeProvider
):
    provider.replies["/.well-known/openid-configuration"] = lambda: httpx.Response(500)
    away = await closed.http.get("/login/provider", headers=HTML)
    assert away.status_code == 503
    assert 'type="password"' in away.text
    questions = len(provider.asked)
    assert (await closed.http.get("/login/provider", headers=HTML)).status_code == 503
    assert len(provider.asked) == questions, "strangers do not wait for it one after another"
    FAKE.time_us += 6_000_000
    provider.replies.clear()
    provider.token = lambda claims: signed(claims | {"aud": "other"})
    await grant(closed, "person:ada", "auditor")
    address, cookie = await begun(closed)
    assert (await answered(closed, provider.authorize(address), cookie)).status_code == 401


async def test_a_login_is_begun_whatever_page_was_asked_for(closed: Door, provider: FakeProvider):
    await grant(closed, "person:ada", "auditor")
    assert (await logged_in(closed, provider, "ä" * 2_000))["Refresh"] == "0; url=../../"


async def test_a_session_opens_no_other_and_so_has_an_end(closed: Door, provider: FakeProvider):
    await grant(closed, "person:ada", "auditor")
    key = (await logged_in(closed, provider))["Cookie"].partition("=")[2]
    form = {"Origin": URL, "Content-Type": "application/x-www-form-urlencoded"}
    refused = await closed.http.post("/login", content=f"key={key}", headers=form)
    assert refused.status_code == 401
    assert "set-cookie" not in refused.headers


async def test_a_group_has_no_keys(closed: Door):
    changes = AccessChanges(closed.services.write, closed.ledger.host)
    with pytest.raises(AccessRefused, match="group"):
        await changes.create_key("group:auditors", (), 1, BY_TEST)
