"""Behind a proxy that serves it under a path, every address stays under that path, and answers."""

import re
from collections import deque
from collections.abc import Callable
from html import unescape
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from kernel.landscape.recorder import Recorder
from kernel.work.contents import BINDING_QUEUE
from tests.kernel.landscape.runs import whole_run
from tests.workers.api.asking import BINDINGS, binding, enqueued, given_up
from tests.workers.api.door import SESSION, URL, Door, source, understanding
from tests.workers.dashboard.test_pages import QUEUE
from workers.api.middleware.path_prefix import PathPrefixMiddleware

pytestmark = pytest.mark.anyio

PREFIX = "/ops/rotulus"
ADDRESS = re.compile(r'(?:href|src|action|data-hub|data-events)="([^"]*)"')
PAGES_MAX = 250


async def filled(door: Door) -> None:
    await door.declare(SESSION, "a", "b", metadata={"case_name": "A v. B"})
    await door.post("eliminate", {"source_id": "s", "observation_id": "o/1", "eliminated": ["a"]})
    await door.operate(source("s-1"), understanding("u-1", "s-1"))
    [request] = await enqueued(door, BINDINGS, binding("a"))
    await given_up(door, BINDING_QUEUE, request["request_id"], "HandlerError: x")
    await enqueued(door, BINDINGS, binding("b/c?d"))
    recorder = Recorder(door.services.ledger)
    whole_run(recorder)
    recorder.complete_run("run-1")


def shown_in(html: str) -> str:
    """Return a page without the elements from which its script makes others, and without forms.

    Forms that change something are asked below.
    """
    html = re.sub(r"<template.*?</template>", "", html, flags=re.DOTALL)
    return re.sub(r'<form[^>]* method="post"[^>]*>', "", html)


async def crawled(get: Callable[[str], Any]) -> tuple[set[str], list[str]]:
    """Follow every address from the first page; return what was asked for, and what is wrong."""
    places, wrong = set[str](), list[str]()
    waiting = deque([f"{URL}{PREFIX}/"])
    while waiting and len(places) < PAGES_MAX:
        place = waiting.popleft().partition("#")[0]
        if place in places:
            continue
        places.add(place)
        if not urlsplit(place).path.startswith(f"{PREFIX}/"):
            wrong.append(f"outside: {place}")
            continue
        if urlsplit(place).path.endswith(("/events", "/exhibit", "/bulk-operations/preview")):
            continue  # a stream, what needs a published checkpoint, and a form without its verb
        answer = await get(place)
        if answer.status_code >= 400:
            wrong.append(f"{answer.status_code}: {place}")
        if answer.is_redirect:
            waiting.append(urljoin(place, answer.headers["location"]))
        elif answer.headers["content-type"].startswith("text/html"):
            waiting += [
                urljoin(place, unescape(each)) for each in ADDRESS.findall(shown_in(answer.text))
            ]
    return places, wrong


@pytest.mark.parametrize("takes_off", [True, False], ids=["taken off", "left on"])
async def test_every_address_stays_under_the_path_and_answers(door: Door, takes_off):
    await filled(door)
    app = door.app if takes_off else PathPrefixMiddleware(door.app, PREFIX)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=URL) as behind:

        async def get(place: str) -> httpx.Response:
            return await behind.get(place.replace(PREFIX, "", 1) if takes_off else place)

        places, wrong = await crawled(get)
        assert wrong == []
        kinds = (
            "sessions/",
            "operations/",
            "requests/",
            "runs/",
            "docs/routes/",
            "events",
        )
        for kind in kinds:
            assert any(kind in place for place in places), kind
        form = f"{URL}{PREFIX}{QUEUE}/pause"
        sent = form.replace(PREFIX, "", 1) if takes_off else form
        done = await behind.post(sent, data={"name": ""}, headers={"Origin": URL})
        assert done.status_code == 303
        led = urljoin(form, done.headers["location"])
        assert led == f"{URL}{PREFIX}{QUEUE}?done=pause"
        assert (await get(led)).is_success
        document = (await get(f"{URL}{PREFIX}/openapi.json")).json()
        [server] = document["servers"]
        assert urljoin(f"{URL}{PREFIX}/openapi.json", server["url"]) == f"{URL}{PREFIX}/"


async def test_the_path_itself_leads_to_the_folder_and_others_are_served_as_ever(door: Door):
    transport = httpx.ASGITransport(PathPrefixMiddleware(door.app, PREFIX))
    async with httpx.AsyncClient(transport=transport, base_url=URL) as behind:
        answer = await behind.get(PREFIX)
        assert answer.status_code == 308
        assert urljoin(f"{URL}{PREFIX}", answer.headers["location"]) == f"{URL}{PREFIX}/"
        assert (await behind.get("/healthz")).is_success
        assert (await behind.get(f"{PREFIX}/healthz")).is_success
        assert (await behind.get(f"{PREFIX}x/healthz")).status_code == 404
        created = await behind.post(f"{PREFIX}{BINDINGS}/requests", json={})
        assert created.status_code == 422, "limits and routes are those of the path behind it"
