"""The hot routes answer as the framework would, and without it where all is well."""

import json
from collections.abc import Iterator
from inspect import unwrap
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi import APIRouter, routing
from fastapi.routing import APIRoute
from hypothesis import given, settings

from tests.kernel.build import FakeHost, create
from tests.workers.api.bodies import BODIES, KEY
from tests.workers.api.door import SESSION, TOKEN, Door, error_of, http_client
from tests.workers.api.kept import KeptDoor, kept_door
from tests.workers.api.test_fuzz import contents
from workers.api.app import HOT, build_app, hot_routes
from workers.api.json_bodies import READ_AT_ONCE_BYTES
from workers.api.middleware.admission import Admission
from workers.api.middleware.thin_routes import ThinRoute
from workers.api.services import Health
from workers.views.surroundings import FleetServices

pytestmark = pytest.mark.anyio

PATHS = {
    path
    for path in BODIES
    if path.rpartition("/")[2]
    in {"eliminate", "operations", "envelopes", "requests", "recomputed", "work"}
}
WORK = {"queue": "binding-evaluation", "reports": [], "traceparents": []}
HOT_BODIES = {path: BODIES[path] for path in sorted(PATHS)} | {"/internal/work": WORK}
ENVELOPES = f"/v1/sessions/{SESSION}/envelopes"
SOMETIMES = {ENVELOPES: (422,)}
"""The statuses that are seen, where they are not both; an envelope is named by a UUID."""

SENDER = {"Authorization": f"Bearer {TOKEN}"}
THIN = SENDER | {"Content-Type": "application/json"}
GENERAL = SENDER | {"Content-Type": "application/json;charset=utf-8"}
"""What only the framework reads."""


class FrameworkAskedError(Exception):
    pass


@pytest.fixture
def alone(door: Door, monkeypatch) -> None:
    """Whoever gets to the framework fails."""

    async def fails(*_: Any) -> None:
        raise FrameworkAskedError

    monkeypatch.setattr(door.app.router, "middleware_stack", fails)


@pytest.fixture(scope="module")
def doors() -> Iterator[tuple[KeptDoor, KeptDoor]]:
    with kept_door() as first, kept_door() as second:
        yield first, second


def test_every_hot_route_is_one():
    assert {unwrap(route.endpoint) for route in hot_routes()} == HOT
    assert len(HOT_BODIES) == len(HOT)


@pytest.mark.parametrize("path", HOT_BODIES)
def test_any_body_is_answered_as_by_the_framework(doors, path):
    answered = []

    @settings(max_examples=settings().max_examples * 2)
    @given(contents(HOT_BODIES[path]))
    def post(content: bytes) -> None:
        fresh = content.replace(KEY.encode(), f"{KEY}:{len(answered)}".encode())
        responses = [
            door.send("POST", path, content=fresh, headers=headers)
            for door, headers in zip(doors, (THIN, GENERAL), strict=True)
        ]
        thin, general = [
            (response.status_code, response.content and response.json(), retry_after(response))
            for response in responses
        ]
        assert thin == general
        answered.append(thin[0])

    post()
    assert {*SOMETIMES.get(path, (200, 422))} <= set(answered)


def test_an_envelope_is_accepted_as_by_the_framework(doors):
    envelope = create("note-1", "Note", title="T")
    thin, general = [
        door.send("POST", ENVELOPES, content=json.dumps(envelope), headers=headers)
        for door, headers in zip(doors, (THIN, GENERAL), strict=True)
    ]
    assert (thin.status_code, thin.json()) == (200, general.json())


def retry_after(response: Any) -> Any:
    return response.headers.get("retry-after"), response.headers["content-type"]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("path", HOT_BODIES)
async def test_what_is_well_is_answered_without_the_framework(door: Door, path):
    response = await door.http.post(path, json=HOT_BODIES[path], headers=SENDER)
    # Nothing is declared here, and a refusal of a session's is its endpoint's answer.
    assert response.status_code == 200 or response.json()["error"]["code"] != "internal"
    assert response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("path", "headers", "content"),
    [
        (f"/v1/sessions/{SESSION}/operations", {}, None),
        (f"/v1/sessions/{SESSION}/operations", {"Content-Type": "text/plain"}, None),
        (f"/v1/sessions/{SESSION}/operations", THIN, b"{}"),
        (f"/v1/sessions/{SESSION}/operations", THIN, b"{"),
        (f"/v1/sessions/{SESSION}/operations", THIN, b""),
        (f"/v1/sessions/{SESSION}/operations", THIN, b" " * READ_AT_ONCE_BYTES + b"{}"),
        ("/v1/sessions/nobody/operations", THIN, None),
        ("/v1/sessions//operations", THIN, None),
        ("/v1/sessions/a/b/operations", THIN, None),
        ("/v2/sessions/operations", THIN, None),
        ("/operations", THIN, None),
        ("/internal/x/work", THIN, None),
    ],
)
@pytest.mark.usefixtures("alone")
async def test_anything_else_is_handed_on(door: Door, path, headers, content):
    body = json.dumps(BODIES[f"/v1/sessions/{SESSION}/operations"]).encode()
    content = body if content is None else content
    error_of(await door.http.post(path, content=content, headers=headers), 500, "internal")


async def test_what_is_handed_on_comes_with_its_body(door: Door):
    await door.declare()
    response = await door.post("operations", {"intents": []})
    [problem] = error_of(response, 422, "INVALID_REQUEST")["details"]["problems"]
    assert problem["field"] == "body.intents"


async def test_routes_are_worked_out_before_the_first_request(monkeypatch):
    services = cast(
        "Any",
        SimpleNamespace(admission=Admission(1), fleet=FleetServices(), health=Health()),
    )
    app = build_app(services, APIRouter(), hosts=frozenset(), host=FakeHost().host)
    worked_out = []
    get_dependant = routing.get_dependant

    def counted(**options: Any) -> Any:
        worked_out.append(options["path"])
        return get_dependant(**options)

    monkeypatch.setattr(routing, "get_dependant", counted)
    async with http_client(app) as http:
        error_of(await http.post("/v1/rollbacks", json={}), 422, "INVALID_REQUEST")
    assert worked_out == []


@pytest.mark.parametrize("path", ["/{a}/{b}", "/{a:path}/b", "/none"])
def test_a_route_that_declares_more_is_not_made_hot(door: Door, path):
    router = APIRouter()

    @router.post(path)
    async def endpoint(a: str) -> None: ...

    [route] = router.routes
    assert isinstance(route, APIRoute)
    if path == "/none":
        ThinRoute(route, door.services)
        route.status_code = 201
    with pytest.raises(TypeError, match="without the framework"):
        ThinRoute(route, door.services)
