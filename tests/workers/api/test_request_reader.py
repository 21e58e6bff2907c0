"""What a route declares is read as the framework, which documents it, would read it."""

import json
from types import SimpleNamespace
from typing import Annotated, Any
from uuid import UUID

import anyio
import httpx
import pytest
from fastapi import (
    BackgroundTasks,
    Body,
    Cookie,
    Depends,
    FastAPI,
    Header,
    Query,
    Request,
    Response,
)
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from tests.workers.api.bodies import BODIES, SENDER
from tests.workers.api.door import SESSION, Door, error_of
from workers.api.application import Application
from workers.api.json_routes import json_router
from workers.api.request_reader import RequestReader

pytestmark = pytest.mark.anyio


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=3)]
    counts: Annotated[list[int], Field(max_length=2)] = []


class Made:
    def __init__(
        self,
        most: Annotated[int | None, Query(ge=0, le=9)] = None,
        if_match: Annotated[str | None, Header()] = None,
    ) -> None:
        self.fields = [most, if_match]


router = json_router("public")


@router.post("/{session_id}/{name:path}/part")
async def endpoint(
    session_id: UUID,
    name: str,
    body: Part,
    made: Annotated[Made, Depends(Made)],
    limit: Annotated[int, Query(ge=1, le=9)] = 5,
    wait_s: Annotated[float, Query(ge=0, allow_inf_nan=False)] = 0,
    x_words: Annotated[str, Header(max_length=4)] = "",
) -> dict[str, Any]:
    return {
        "read": [str(session_id), name, body.model_dump(), made.fields, limit, wait_s, x_words],
    }


@router.post("/optional")
async def optional(body: Part | None = None) -> dict[str, Any]:
    return {"read": body and body.model_dump()}


def framework() -> FastAPI:
    app = FastAPI()
    app.router.routes.extend(router.routes)

    @app.exception_handler(RequestValidationError)
    async def _(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problems_of(error)

    return app


def problems_of(error: RequestValidationError) -> Response:
    listed = [[".".join(map(str, problem["loc"])), problem["msg"]] for problem in error.errors()]
    return JSONResponse({"problems": listed}, 422)


async def asked(app: Any, path: str, **options: Any) -> tuple[int, Any]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        response = await client.post(path, **options)
    document = response.json()
    if "error" in document:
        details = document["error"]["details"]["problems"]
        document = {"problems": [[each["field"], each["problem"]] for each in details]}
    return response.status_code, document


IDS = st.sampled_from([SESSION, SESSION.upper(), "x", "1"])
NAMES = st.sampled_from(["a", "a/b", "part", "a/part"])
STATED = st.sampled_from(["1", "9", "10", "-1", "0", "x", "", "1.0", " 2", "1e0", "inf", "é"])
QUERIES = st.dictionaries(st.sampled_from(["limit", "wait_s", "most", "other"]), STATED)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "If-Match": st.sampled_from(["*", '"x"', ""]),
        "X-Words": st.sampled_from(["", "abcd", "abcde"]),
        "Content-Type": st.sampled_from(
            ["application/json", "Application/X+JSON; charset=utf-8", "text/plain", "json", ""]
        ),
    },
)
VALUES = st.sampled_from([None, 1, "", "abc", "abcd", [1], [1, 2, 3], ["x"], {}, True])
PARTS = st.one_of(
    VALUES, st.dictionaries(st.sampled_from(["name", "counts", "more"]), VALUES), st.just(...)
)


@given(IDS, NAMES, QUERIES, HEADERS, PARTS)
def test_a_request_is_read_as_the_framework_reads_it(session_id, name, query, headers, part):
    content = b"" if part is ... else json.dumps(part).encode()
    options = {"params": query, "headers": headers, "content": content}
    ours = Application(router.routes, SimpleNamespace(door=None))  # type: ignore[arg-type]
    for path in (f"/{session_id}/{name}/part", "/optional"):
        expected = anyio.run(lambda path=path: asked(framework(), path, **options))
        assert anyio.run(lambda path=path: asked(ours, path, **options)) == expected


def of_body(body: Part) -> Part:
    return body


@pytest.mark.parametrize(
    "kind",
    [
        Response,
        BackgroundTasks,
        Annotated[str, Cookie()],
        Annotated[int, Body()],
        Annotated[Part, Depends(of_body)],
    ],
)
def test_what_nobody_reads_is_refused_at_the_start(kind):
    async def endpoint(part: Part, extra: kind) -> None: ...

    route = APIRoute("/", endpoint, methods=["POST"], response_model=None)
    with pytest.raises(TypeError, match="nobody reads"):
        RequestReader(route)


async def test_what_a_request_declares_comes_with_its_body(door: Door):
    await door.declare()
    response = await door.post("operations", {"intents": []})
    [problem] = error_of(response, 422, "INVALID_REQUEST")["details"]["problems"]
    assert problem["field"] == "body.intents"


async def test_all_that_is_wrong_with_a_request_is_refused_together(door: Door):
    body = {"source_id": "s", "observation_id": "o", "eliminated": "a"}
    response = await door.send("/v1/sessions/x/eliminate?survivors=-1", body)
    problems = error_of(response, 422, "INVALID_REQUEST")["details"]["problems"]
    fields = ["query.survivors", "path.session_id", "body.eliminated"]
    assert [problem["field"] for problem in problems] == fields


@pytest.mark.parametrize("path", BODIES)
async def test_no_route_takes_a_parameter_twice(door: Door, path):
    response = await door.http.post(f"{path}?a=1&a=2", json=BODIES[path], headers=SENDER)
    [problem] = error_of(response, 422, "INVALID_REQUEST")["details"]["problems"]
    assert problem == {"field": "query.a", "problem": "the parameter is given twice"}
