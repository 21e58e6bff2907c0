"""Who may do what at the doors of a gateway that takes keys."""

import os
import re
from collections.abc import AsyncIterator
from types import SimpleNamespace

import anyio
import httpx
import pytest
from fastapi.routing import APIRoute

from actors.commit.access_units import DenialsUnit
from kernel.records.access.actions import ROLES, Grant
from kernel.records.access.keys import AccessKey, new_key
from kernel.records.access.records import AccessDecision
from kernel.values.errors import LedgerUnavailable
from tests.kernel.build import HOUR_US, FakeHost
from tests.workers.api.door import TOKEN, URL, Door, error_of, http_client, running_door
from workers.client.typed.worker_proof import proof_of
from workers.use_cases import access, denial_recording
from workers.use_cases.access import COOKIE, AccessChanges
from workers.use_cases.denial_recording import DenialRecording

pytestmark = pytest.mark.anyio

BY_TEST = AccessDecision("person:owner", "for a test")
HTML = {"Accept": "text/html"}
FORM = {"Origin": URL, "Content-Type": "application/x-www-form-urlencoded"}

# What each role may do, by method and path; the first row that fits counts. Written down from what
# the roles are for, and not from the table of actions.
MAY: tuple[tuple[str, str], ...] = (
    (r"GET /(healthz|readyz|checkpoint|tile/.*|openapi.json|static/.*|docs.*|login)", "anybody"),
    (r"GET /v1/(checkpoint|access/caller)", "anybody"),
    (r"POST /(login|logout)|GET /login/provider(/answer)?", "anybody"),
    (r"POST /internal/.*", "worker"),
    (r"GET /metrics", "scraper operator auditor"),
    (r"GET /v1/access", "auditor"),
    (r"POST /v1/(access/.*|erasures|legal-holds.*|checkpoint/handovers)", ""),
    (r"POST /v1/sessions/[^/]*/simulations", "producer reviewer"),
    (r"POST /v1/(sessions|thoughts|landscape|sources).*", "producer"),
    (r"POST /v1/queues/[^/]*/requests", "producer worker"),
    (r"POST /v1/queues/[^/]*/outcomes", "producer worker reviewer auditor"),
    (r"POST /v1/queues/[^/]*/requests/.*/(cancel|prioritize)", "producer operator"),
    (r"POST /v1/(queues|bulk-operations).*", "operator"),
    (r"POST /v1/(bindings|shards|authority|rounds|implications|quarantines|ledger|archive).*",
     "operator"),
    (r"POST /v1/(reviews|rollbacks).*", "reviewer"),
    (r"POST /v1/audit/replay", "auditor"),
    (r"GET /v1/(queues/[^/]*/)?(requests|dead-letters|failures)",
     "producer operator reviewer auditor"),
    (r"GET /v1/queues/[^/]*/requests/.*", "producer worker reviewer auditor"),
    (r"GET /v1/sessions/.*|GET /v1/thoughts/.*", "producer reviewer auditor"),
    (r"GET /v1/rounds", "producer reviewer auditor"),
    (r"GET /v1/(queues|gateways|shards.*|attention|charts|archive|authority/backfill)",
     "operator reviewer auditor"),
    (r"GET /v1/(bulk-operations.*|implications|quarantines|legal-holds|ledger/lost|operator-log)",
     "operator reviewer auditor"),
    (r"GET /v1/.*", "reviewer auditor"),
    (r"GET /(events|snapshot.json)?", "operator reviewer auditor"),
    (r"GET /(workers.*|schedules|fleet|operator-log|queues|queues/[^/]*)",
     "operator reviewer auditor"),
    (r"GET /queues/[^/]*/requests/.*", "producer worker reviewer auditor"),
    (r"GET /(requests.*|failures)", "producer operator reviewer auditor"),
    (r"(GET|POST) /bulk-operations.*|POST /queues/.*", "operator"),
    (r"GET /sessions/.*", "producer reviewer auditor"),
    (r"POST /(reviews|operations).*", "reviewer"),
    (r"GET /.*", "reviewer auditor"),
)  # fmt: skip
ENDLESS = {"/events"}
FAKE = FakeHost()


@pytest.fixture
async def closed() -> AsyncIterator[Door]:
    async with running_door(host=FAKE.host, takes_keys=True) as door:
        yield door


async def key_of(door: Door, principal: str, *grants: tuple[str, str], days: int = 1) -> AccessKey:
    granted = [Grant(principal, role, scope) for role, scope in grants]
    made = await changes(door).create_key(principal, granted, days, BY_TEST)
    await refresh(door)
    return made.key


def changes(door: Door) -> AccessChanges:
    return AccessChanges(door.services.write, door.ledger.host)


async def refresh(door: Door) -> None:
    assert door.services.door is not None
    await door.services.door.table.refresh()


def bearer(key: object) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def routes_of(door: Door) -> list[tuple[str, str]]:
    """Every method and path that the gateway answers, its parts filled in."""
    return [
        (method, re.sub(r"\{[^}]*:?(?:path)?\}", "1", route.path))
        for route in door.app.routes
        if isinstance(route, APIRoute)
        for method in sorted(route.methods)
    ]


def allowed_roles(method: str, path: str) -> set[str] | None:
    """The roles that may, or None where anybody may."""
    for pattern, roles in MAY:
        if re.fullmatch(pattern, f"{method} {path}"):
            return None if roles == "anybody" else {*roles.split(), "owner"}
    raise AssertionError(f"{method} {path}")


@pytest.mark.parametrize("role", ROLES)
async def test_each_role_does_at_each_door_what_is_its_own_and_nothing_else(
    closed: Door, role: str
):
    key = await key_of(closed, f"service:{role}", (role, "*"))
    wrong = []
    for method, path in routes_of(closed):
        may = allowed_roles(method, path)
        is_allowed = may is None or role in may
        if is_allowed and path in ENDLESS:
            continue
        async with http_client(closed.app) as client:
            response = await client.request(method, path, headers=bearer(key), content=b"{}")
        code = code_of(response)
        if (code == "access_denied") == is_allowed or code in ("unauthenticated", "internal"):
            wrong.append((method, path, response.status_code, code))
    assert wrong == []


@pytest.mark.parametrize(
    "header",
    [
        None,
        "Bearer ",
        "Bearer rot_000000000000_" + "A" * 43,
        f"Bearer {AccessKey('0' * 12, 'B' * 43)}",
        "Basic cm90OnJvdA==",
        "Bearer the-token-of-others",
        "Rotulus-Worker 00",
    ],
)
async def test_without_a_key_that_stands_nothing_is_answered_but_what_is_public(
    closed: Door, header: str | None
):
    headers = {} if header is None else {"Authorization": header}
    bodies = set()
    for method, path in routes_of(closed):
        if allowed_roles(method, path) is None:
            continue
        response = await closed.http.request(method, path, headers=headers, content=b"{}")
        assert response.status_code == 401, (method, path)
        assert response.headers["WWW-Authenticate"] == "Bearer"
        bodies.add(response.text)
    assert len(bodies) == 1  # nothing is said of what was asked for


@pytest.mark.parametrize("header", ["Bearer junk", "Rotulus-Worker 00", "Bearer rot_0"])
async def test_of_who_is_nobody_no_stream_is_read(closed: Door, header: str):
    pieces = []

    async def lines() -> AsyncIterator[bytes]:
        for number in range(3):
            pieces.append(number)
            yield b"{}\n"

    path = f"/v1/sessions/{SESSION}/operations:bulk"
    response = await closed.http.post(path, content=lines(), headers={"Authorization": header})
    error_of(response, 401, "unauthenticated")
    assert pieces == []


async def test_a_key_of_another_secret_is_none(closed: Door):
    key = await key_of(closed, "person:ada", ("owner", "*"))
    forged = AccessKey(key.key_id, new_key(os.urandom).secret)
    error_of(await closed.http.get("/v1/log", headers=bearer(forged)), 401, "unauthenticated")
    assert (await closed.http.get("/v1/log", headers=bearer(key))).status_code == 200


async def test_an_expired_key_is_none(closed: Door):
    key = await key_of(closed, "person:ada", ("owner", "*"))
    FAKE.time_us += 2 * access.DAY_US
    error_of(await closed.http.get("/v1/log", headers=bearer(key)), 401, "unauthenticated")


async def test_a_revoked_key_ends_at_once_here_and_its_logins_with_it(closed: Door):
    owner = await key_of(closed, "person:owner", ("owner", "*"))
    key = await key_of(closed, "person:ada", ("auditor", "*"))
    cookie = await login(closed, key)
    assert (await closed.http.get("/v1/log", headers=cookie)).status_code == 200
    revoked = await closed.http.post(
        f"/v1/access/keys/{key.key_id}/revoke", json={}, headers=bearer(owner)
    )
    assert len(revoked.json()["revoked"]) == 2
    for headers in (bearer(key), cookie):
        error_of(await closed.http.get("/v1/log", headers=headers), 401, "unauthenticated")


async def test_what_another_gateway_revoked_ends_here_within_its_turn(closed: Door):
    key = await key_of(closed, "person:ada", ("auditor", "*"))
    # Written by others: this gateway learns of it from the record alone.
    await changes(closed).revoke_key(key.key_id, BY_TEST)
    assert closed.services.door is not None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(closed.services.door.table.run)
        with anyio.fail_after(20):
            while (await closed.http.get("/v1/log", headers=bearer(key))).status_code != 401:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert access.READ_EVERY_S <= 5


async def test_a_stream_ends_with_the_key_that_opened_it(closed: Door):
    key = await key_of(closed, "person:ada", ("producer", "*"))
    await closed.http.post(
        "/v1/sessions",
        json={"session_id": SESSION, "ontology": ONTOLOGY, "hypotheses": ["a", "b"]},
        headers=bearer(key),
    )
    line = b'{"intent_key":"k","intent_kind":"no"}\n'
    second = anyio.Event()

    async def lines() -> AsyncIterator[bytes]:
        yield line
        await changes(closed).revoke_key(key.key_id, BY_TEST)
        await refresh(closed)
        second.set()
        for _ in range(100):
            yield line

    path = f"/v1/sessions/{SESSION}/operations:bulk"
    response = await closed.http.post(
        path, content=lines(), headers=bearer(key) | {"Content-Type": "application/x-ndjson"}
    )
    assert second.is_set()
    assert response.text.count("\n") < 100


async def test_a_worker_proves_itself_by_the_token_at_the_doors_of_producers(closed: Door):
    content = b'{"requests":[]}'
    proof = proof_of(TOKEN, "POST", b"/v1/queues/binding-evaluation/requests", content)
    path = "/v1/queues/binding-evaluation/requests"
    response = await closed.http.post(path, content=content, headers={"Authorization": proof})
    assert code_of(response) not in ("unauthenticated", "access_denied")
    denied = await closed.http.post(
        "/v1/queues/binding-evaluation/pause", content=b"{}", headers=bearer(TOKEN)
    )
    error_of(denied, 403, "access_denied")


async def test_a_narrow_grant_reaches_its_queue_alone(closed: Door):
    key = await key_of(closed, "service:s", ("producer", "queue:binding-evaluation"))
    fits = await closed.http.get("/v1/queues/binding-evaluation/requests", headers=bearer(key))
    assert fits.status_code == 200
    for path in (
        "/v1/requests",
        "/v1/queues/extraction-transition/requests",
        "/v1/queues/x/requests",
    ):
        error_of(await closed.http.get(path, headers=bearer(key)), 403, "access_denied")


async def test_the_record_says_who_the_key_names_and_another_name_is_refused(closed: Door):
    key = await key_of(closed, "person:olga", ("operator", "*"))
    path = "/v1/queues/binding-evaluation/pause"
    refused = await closed.http.post(path, json={"decided_by": "bob"}, headers=bearer(key))
    error_of(refused, 403, "principal_differs")
    assert (await closed.http.post(path, json={}, headers=bearer(key))).json() == {"changed": True}
    log = (await closed.http.get("/v1/operator-log", headers=bearer(key))).json()
    assert log["entries"][0]["decided_by"].startswith("person:olga at ")


async def test_keys_and_grants_are_changed_at_the_door_by_an_owner(closed: Door):
    owner = bearer(await key_of(closed, "person:owner", ("owner", "*")))
    body = {"principal": "person:ada", "roles": [{"role": "auditor"}], "reason": "she audits"}
    made = await closed.http.post("/v1/access/keys", json=body, headers=owner)
    assert made.status_code == 201
    ada = bearer(made.json()["key"])
    assert (await closed.http.get("/v1/access/caller", headers=ada)).json() == {
        "access": "keys",
        "principal": "person:ada",
        "roles": [{"role": "auditor", "scope": "*", "clearance": "everything"}],
    }
    turned = await closed.http.post(
        f"/v1/access/keys/{made.json()['key_id']}/rotate", json={}, headers=owner
    )
    error_of(await closed.http.get("/v1/log", headers=ada), 401, "unauthenticated")
    ada = bearer(turned.json()["key"])
    before = (await closed.http.get("/v1/access", headers=ada)).json()
    grant = {"principal": "person:ada", "role": "auditor"}
    await closed.http.post("/v1/access/grants/withdraw", json=grant, headers=owner)
    error_of(await closed.http.get("/v1/log", headers=ada), 403, "access_denied")
    then = await closed.http.get(
        f"/v1/access?to_sequence={before['ec_sequence_number']}", headers=owner
    )
    assert then.json()["grants"] == before["grants"]
    assert "secret" not in then.text
    unknown = await closed.http.post("/v1/access/keys/nope/revoke", json={}, headers=owner)
    error_of(unknown, 404, "access_key_unknown")


async def login(door: Door, key: object, way: str = "") -> dict[str, str]:
    """Log a browser in and return its cookie."""
    async with http_client(door.app) as browser:
        response = await browser.post("/login", content=f"key={key}&next={way}", headers=FORM)
    assert response.status_code == 303, response.text
    cookie = response.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=rot_")
    for attribute in ("Secure", "HttpOnly", "SameSite=Strict", "Path=/"):
        assert attribute in cookie
    return {"Cookie": cookie.partition(";")[0], "Location": response.headers["location"]}


async def test_a_login_ends_after_twelve_hours_and_its_key_does_not(closed: Door):
    key = await key_of(closed, "person:ada", ("auditor", "*"))
    cookie = await login(closed, key)
    FAKE.time_us += 12 * HOUR_US - 60_000_000
    assert (await closed.http.get("/v1/log", headers=cookie)).status_code == 200
    FAKE.time_us += 120_000_000
    error_of(await closed.http.get("/v1/log", headers=cookie), 401, "unauthenticated")
    assert (await closed.http.get("/v1/log", headers=bearer(key))).status_code == 200


async def test_a_browser_is_led_to_the_login_and_back(closed: Door):
    key = await key_of(closed, "person:ada", ("auditor", "*"))
    led = await closed.http.get("/operations?order=newest", headers=HTML)
    assert (led.status_code, led.headers["location"]) == (
        303,
        "login?next=operations%3Forder%3Dnewest",
    )
    deep = await closed.http.get("/runs/1/tokens/2", headers=HTML)
    assert deep.headers["location"].startswith("../../../login?next=")
    page = await closed.http.get("/login?next=operations", headers=HTML)
    assert 'type="password"' in page.text
    cookie = await login(closed, key, "operations%3Forder%3Dnewest")
    assert cookie.pop("Location") == "./operations?order=newest"
    shown = await closed.http.get("/operations", headers=HTML | cookie)
    assert shown.status_code == 200
    assert "Logged in as person:ada (auditor)" in shown.text
    foreign = await closed.http.post("/logout", content=b"", headers=FORM | cookie)
    assert (foreign.status_code, foreign.headers["content-type"][:9]) == (403, "text/html")
    out = await closed.http.post("/logout", content=token_in(shown), headers=FORM | cookie)
    assert out.status_code == 303
    assert (await closed.http.get("/operations", headers=HTML | cookie)).status_code == 303
    assert (await closed.http.get("/operations", headers=bearer(key))).status_code == 200


def token_in(page: httpx.Response) -> str:
    """What the forms of a page hold of its session, as a body says it."""
    tokens = set(re.findall(r'name="form_token" value="([0-9a-f]{64})"', page.text))
    [token] = tokens
    return f"form_token={token}"


async def test_a_form_holds_a_token_of_its_session_and_another_sessions_counts_for_nothing(
    closed: Door,
):
    key = await key_of(closed, "person:olga", ("operator", "*"))
    ours, others = [await login(closed, key) for _ in range(2)]
    pages = [await closed.http.get("/queues/x", headers=HTML | each) for each in (ours, others)]
    page = await closed.http.get("/queues/binding-evaluation", headers=HTML | ours)
    assert page.text.count("<form") - page.text.count('method="get"') == page.text.count(
        'name="form_token"'
    )
    path, tokens = "/queues/binding-evaluation/pause", [token_in(each) for each in pages]
    for wrong in ("", "form_token=", tokens[1], f"{tokens[0]}&{tokens[0]}"):
        refused = await closed.http.post(path, content=wrong, headers=HTML | FORM | ours)
        assert refused.status_code == 403, wrong
    done = await closed.http.post(path, content=tokens[0], headers=HTML | FORM | ours)
    assert done.status_code == 303
    by_key = await closed.http.post(
        path.replace("pause", "resume"), content=b"", headers=HTML | FORM | bearer(key)
    )
    assert by_key.status_code == 303, "nobody else sends a key along"


async def test_a_form_whose_login_has_ended_leads_to_the_login(closed: Door):
    for way, headers in (("../../login", HTML), ("", {})):
        sent = await closed.http.post("/queues/x/pause", content=b"", headers=FORM | headers)
        assert sent.status_code == (303 if way else 401)
        assert sent.headers.get("location", "") == way


@pytest.mark.parametrize("way", ["//evil.example/", "http://evil.example/", "%0d%0aSet-Cookie:x"])
async def test_a_login_leads_nowhere_else(closed: Door, way: str):
    key = await key_of(closed, "person:ada", ("auditor", "*"))
    location = (await login(closed, key, way))["Location"]
    assert location.startswith("./")
    assert not location.startswith(".//")
    assert "\r" not in location


async def test_a_wrong_key_opens_nothing_and_is_not_shown_again(closed: Door):
    key = new_key(os.urandom)
    response = await closed.http.post("/login", content=f"key={key}", headers=FORM)
    assert response.status_code == 401
    assert "set-cookie" not in response.headers
    assert str(key) not in response.text
    foreign = FORM | {"Origin": "http://evil.example"}
    refused = await closed.http.post("/login", content=f"key={key}", headers=foreign)
    assert refused.status_code == 403


async def test_a_page_shows_the_places_of_its_reader_alone(closed: Door):
    operator = bearer(await key_of(closed, "person:olga", ("operator", "*")))
    page = (await closed.http.get("/queues", headers=HTML | operator)).text
    assert ">Fleet</a>" in page
    assert ">Reviews</a>" not in page
    docs = (await closed.http.get("/docs", headers=HTML)).text
    assert "Log in</a>" in docs
    assert ">Fleet</a>" not in docs


async def test_access_is_open_without_keys_and_says_so_on_each_page(door: Door):
    page = (await door.http.get("/queues", headers=HTML)).text
    assert "There is no login" in page
    assert (await door.http.get("/v1/access/caller")).json()["access"] == "open"


SESSION = "00000000-0000-4000-8000-000000000001"
ONTOLOGY = {
    "hypothesis_space_id": "space",
    "hypothesis_version": "v1",
    "causal_graph_ref": "none",
    "causal_graph_version": "0",
}


def code_of(response: object) -> str:
    try:
        return str(response.json()["error"]["code"])  # type: ignore[attr-defined]
    except (ValueError, KeyError, TypeError):
        return ""


async def test_a_denial_is_on_the_record_once_a_minute_and_a_strangers_is_not(
    closed: Door, monkeypatch: pytest.MonkeyPatch
):
    slept = anyio.Event()

    async def sleep(_: float) -> None:
        slept.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(denial_recording, "anyio", SimpleNamespace(sleep=sleep))
    assert closed.services.door is not None
    denials = closed.services.door.denials
    key = bearer(await key_of(closed, "service:s", ("producer", "*")))
    auditor = bearer(await key_of(closed, "person:ada", ("auditor", "*")))
    before = closed.ledger.read(lambda view: view.head().receipt_sequence)
    for _ in range(50):
        error_of(await closed.http.get("/v1/log"), 401, "unauthenticated")
    await denials.record()
    assert closed.ledger.read(lambda view: view.head().receipt_sequence) == before
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(denials.run)
        error_of(await closed.http.get("/v1/log", headers=key), 403, "access_denied")
        with anyio.fail_after(20):
            await slept.wait()
        for _ in range(30):
            error_of(await closed.http.get("/v1/log", headers=key), 403, "access_denied")
        await anyio.lowlevel.checkpoint()
        assert closed.ledger.read(lambda view: view.head().receipt_sequence) == before + 1
        tasks.cancel_scope.cancel()
    await denials.record()  # as a gateway does before it ends
    listed = (await closed.http.get("/v1/access", headers=auditor)).json()["denials"]
    assert [(each["principal"], each["actions"]) for each in listed] == [
        ("service:s", {"read.records": 30}),
        ("service:s", {"read.records": 1}),
    ]
    assert closed.services.door.refused == {"unauthenticated": 50, "access_denied": 31}


async def test_what_could_not_be_recorded_is_counted_on():
    fails, written = [True], []

    async def write(unit: DenialsUnit) -> None:
        if fails:
            fails.pop()
            raise LedgerUnavailable("the ledger is away")
        written.extend(unit.denials)

    denials = DenialRecording(write, lambda: 1)
    denials.note("service:s", "read.audit")
    await denials.record()
    denials.note("service:s", "read.audit")
    await denials.record()
    assert [each.actions for each in written] == [{"read.audit": 2}]
