"""A principal at a limit is refused at the door, and the others are not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest

from tests.kernel.build import FakeHost
from tests.workers.api.asking import BINDINGS, binding
from tests.workers.api.door import SESSION, Door, error_of, eventually, running_door
from tests.workers.api.test_access import HTML, bearer, key_of
from tests.workers.api.test_syntheses import synthesis
from workers.environment.principal_limits import PrincipalLimits
from workers.use_cases.principal_use import PrincipalUses

pytestmark = pytest.mark.anyio


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@asynccontextmanager
async def limited_door(**limits: int) -> AsyncIterator[tuple[Door, Clock]]:
    clock = Clock()
    uses = PrincipalUses(PrincipalLimits(**limits), clock)
    async with running_door(host=FakeHost().host, takes_keys=True, uses=uses) as door:
        yield door, clock


async def producer(door: Door, name: str) -> dict[str, str]:
    return bearer(await key_of(door, f"service:{name}", ("producer", "*")))


async def ask(door: Door, who: dict[str, str], *keys: str) -> httpx.Response:
    body = {"requests": [binding(key) for key in keys]}
    return await door.http.post(f"{BINDINGS}/requests", json=body, headers=who)


def limited(response: httpx.Response, limit: str, after_s: int) -> None:
    details = error_of(response, 429, "principal_limited")["details"]
    assert (details["limit"], details["retry_after_s"]) == (limit, after_s)
    assert response.headers["retry-after"] == str(after_s)


async def test_of_two_producers_the_noisy_one_is_refused_and_the_other_is_not():
    async with limited_door(requests_per_s=10) as (door, clock):
        noisy, quiet = await producer(door, "noisy"), await producer(door, "quiet")
        answered: dict[str, list[int]] = {"noisy": [], "quiet": []}
        for second in range(5):
            for number in range(50):
                response = await ask(door, noisy, f"n-{second}-{number}")
                answered["noisy"].append(response.status_code)
                if number % 10 == 0:
                    response = await ask(door, quiet, f"q-{second}-{number}")
                    answered["quiet"].append(response.status_code)
            clock.now_s += 1
        # Two seconds' worth at once, and then as much as leaks away.
        assert answered["noisy"].count(200) == 20 + 4 * 10
        assert answered["noisy"].count(429) == 250 - 60
        assert answered["quiet"] == [200] * 25
        uses = (await door.http.get("/fleet", headers=HTML | await operator(door))).text
        assert uses.index("service:noisy") < uses.index("service:quiet")
        assert "most often requests_per_s" in uses


async def operator(door: Door) -> dict[str, str]:
    return bearer(await key_of(door, "person:olga", ("operator", "*")))


async def test_a_refusal_names_the_limit_and_after_it_the_same_is_answered():
    async with limited_door(requests_per_s=1) as (door, clock):
        who = await producer(door, "a")
        assert [(await ask(door, who, key)).status_code for key in "ab"] == [200, 200]
        limited(await ask(door, who, "c"), "requests_per_s", 1)
        clock.now_s += 1
        assert (await ask(door, who, "c")).status_code == 200


async def test_bytes_of_bodies_are_counted_by_their_length_and_without_one_as_they_come():
    async with limited_door(bytes_per_s=1_000) as (door, clock):
        who = await producer(door, "a")

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(4):
                yield b"x" * 1_000

        path = f"{BINDINGS}/requests"
        assert (await door.http.post(path, content=b"x" * 4_000, headers=who)).status_code == 422
        limited(await door.http.post(path, content=b"", headers=who), "bytes_per_s", 3)
        clock.now_s += 10
        assert (await door.http.post(path, content=pieces(), headers=who)).status_code == 422
        limited(await door.http.post(path, content=b"", headers=who), "bytes_per_s", 3)


async def test_refusals_are_limited_those_for_a_missing_role_too():
    async with limited_door(refusals_per_min=4) as (door, clock):
        who = await producer(door, "a")
        for _ in range(2):
            error_of(await door.http.get("/v1/log", headers=who), 403, "access_denied")
            answer = await door.http.post(f"{BINDINGS}/requests", json={}, headers=who)
            error_of(answer, 422, "INVALID_REQUEST")
        limited(await door.http.get("/v1/requests", headers=who), "refusals_per_min", 15)
        clock.now_s += 15
        assert (await door.http.get("/v1/requests", headers=who)).status_code == 200


async def test_open_requests_are_limited_a_repetition_is_none_and_an_outcome_makes_room():
    async with limited_door(requests_open=3) as (door, clock):
        who, other = await producer(door, "a"), await producer(door, "b")
        made = (await ask(door, who, "1", "2", "3")).json()["requests"]
        limited(await ask(door, who, "4"), "requests_open", 1)
        assert (await ask(door, who, "2", "3")).json()["requests"] == [
            {**each, "duplicate": True} for each in made[1:]
        ]
        assert (await ask(door, other, "4")).status_code == 200
        cancel = f"{BINDINGS}/requests/{made[0]['request_id']}/cancel"
        await door.http.post(cancel, json={"reason": "r"}, headers=who)
        clock.now_s += 1
        assert (await ask(door, who, "5")).status_code == 200
        clock.now_s += 1
        limited(await ask(door, who, "6"), "requests_open", 1)


async def test_waits_are_limited_and_who_waits_is_not_in_flight():
    async with limited_door(waits=2, requests_in_flight=1) as (door, _):
        who = await producer(door, "a")
        made = (await ask(door, who, "1", "2")).json()["requests"]
        ids = [each["request_id"] for each in made]
        body = {"request_ids": ids, "wait_s": 25}
        use = door.services.door.uses.of("service:a")  # type: ignore[union-attr]

        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                await door.http.post(f"{BINDINGS}/outcomes", json=body, headers=who)

            tasks.start_soon(wait)
            await eventually(lambda: use.waits == 2)
            assert use.in_flight == 0
            limited(
                await door.http.post(f"{BINDINGS}/outcomes", json=body, headers=who), "waits", 1
            )
            tasks.cancel_scope.cancel()
        assert (use.in_flight, use.waits) == (0, 0)


async def test_streams_and_requests_in_flight_are_limited_apart():
    async with limited_door(streams=1, requests_in_flight=1) as (door, _):
        who, go_on, begun = await producer(door, "a"), anyio.Event(), anyio.Event()

        async def lines() -> AsyncIterator[bytes]:
            begun.set()
            await go_on.wait()
            yield b"{}"

        async def send(path: str) -> None:
            await door.http.post(path, content=lines(), headers=who)

        paths = {"streams": f"/v1/sessions/{SESSION}/operations:bulk"}
        paths["requests_in_flight"] = f"/v1/sessions/{SESSION}/operations"
        for limit, path in paths.items():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send, path)
                await begun.wait()
                limited(await door.http.post(path, content=b"", headers=who), limit, 1)
                go_on.set()
            begun, go_on = anyio.Event(), anyio.Event()
            assert (await door.http.post(path, content=b"", headers=who)).status_code != 429


async def test_calls_of_a_model_are_limited():
    async with limited_door(model_calls_per_min=1) as (door, _):
        who = await producer(door, "a")
        path = f"/v1/sessions/{SESSION}/syntheses"
        body = synthesis("u-1", "nowhere")
        assert (await door.http.post(path, json=body, headers=who)).status_code != 429
        limited(await door.http.post(path, json=body, headers=who), "model_calls_per_min", 60)


async def test_the_fleet_of_workers_and_who_needs_no_name_have_no_limits():
    async with limited_door(requests_per_s=1, refusals_per_min=1) as (door, _):
        for _ in range(5):
            assert (await door.reporter("work", {})).status_code == 422
            assert (await door.http.get("/healthz")).status_code == 200
