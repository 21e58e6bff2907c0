"""Calls that come together are sent as one, and what one of them suffers the others do not."""

import json

import anyio
import anyio.lowlevel
import httpx
import pytest

from tests.workers.client.scripted_gateway import WORK, ScriptedGateway, refusal, taken
from workers.client import GatewayError
from workers.client.job_calls import ENQUEUES_MAX

pytestmark = pytest.mark.anyio


async def enqueue_together(rotulus, keys, answers):
    async def enqueue(key):
        try:
            answers[key] = (await rotulus.enqueue(WORK, key=key)).request_id
        except GatewayError as error:
            answers[key] = error

    async with anyio.create_task_group() as tasks:
        for key in keys:
            tasks.start_soon(enqueue, key)


def keys_of(request: httpx.Request) -> list[str]:
    return [stated["request_key"] for stated in json.loads(request.content)["requests"]]


def sent(gateway: ScriptedGateway) -> list[list[str]]:
    return [keys_of(request) for request in gateway.requests]


async def test_what_comes_together_is_one_call_and_what_comes_alone_is_another():
    gateway, answers = ScriptedGateway(taken), {}
    async with gateway.client() as rotulus:
        await enqueue_together(rotulus, "abc", answers)
        await rotulus.enqueue(WORK, key="d")
    assert answers == {key: f"request:{key}" for key in "abc"}
    assert sent(gateway) == [["a", "b", "c"], ["d"]]


async def test_a_call_holds_as_much_as_a_gateway_takes():
    gateway, answers = ScriptedGateway(taken), {}
    keys = [str(number) for number in range(600)]
    async with gateway.client() as rotulus:
        await enqueue_together(rotulus, keys, answers)
    assert [len(call) for call in sent(gateway)] == [256, 256, 88]
    assert answers == {key: f"request:{key}" for key in keys}


async def test_while_enough_calls_are_on_their_way_others_wait_and_go_together():
    gate = anyio.Event()

    async def late(request: httpx.Request) -> httpx.Response:
        await gate.wait()
        return taken(request)

    gateway, answers = ScriptedGateway(late), {}
    async with gateway.client() as rotulus, anyio.create_task_group() as tasks:
        for key in "abcdefg":
            tasks.start_soon(enqueue_together, rotulus, key, answers)
            await anyio.wait_all_tasks_blocked()
        assert sent(gateway) == [["a"], ["b"], ["c"], ["d"]]
        assert len(sent(gateway)) == ENQUEUES_MAX
        gate.set()
    assert sent(gateway)[4:] == [["e", "f", "g"]]
    assert len(answers) == 7


@pytest.mark.parametrize("names_it", [True, False])
async def test_who_is_refused_takes_no_other_with_it(names_it):
    def all_or_none(request: httpx.Request) -> httpx.Response:
        keys = keys_of(request)
        bad = [place for place, key in enumerate(keys) if key in "bd"]
        details = {"index": bad[0]} if bad and names_it else {}
        return refusal(409, "work_request_conflict", **details) if bad else taken(request)

    gateway, answers = ScriptedGateway(all_or_none), {}
    async with gateway.client() as rotulus:
        await enqueue_together(rotulus, "abcde", answers)
    assert {key for key, answer in answers.items() if isinstance(answer, str)} == set("ace")
    errors = [answers[key] for key in "bd"]
    assert [(error.code, error.index) for error in errors] == [("work_request_conflict", None)] * 2
    assert errors[0] is not errors[1]


async def test_who_sends_for_others_may_be_cancelled():
    """Whoever was first is cancelled while its call is on its way; the next sends for the rest."""
    calls = []

    async def stuck_at_first(request: httpx.Request) -> httpx.Response:
        calls.append(keys_of(request))
        if len(calls) == 1:
            await anyio.sleep_forever()
        return taken(request)

    gateway, answers = ScriptedGateway(stuck_at_first), {}
    first = anyio.CancelScope()

    async def to_be_cancelled(rotulus):
        with first:
            await anyio.lowlevel.checkpoint()  # the others begin in a group of their own
            await rotulus.enqueue(WORK, key="a")

    async with gateway.client() as rotulus, anyio.create_task_group() as tasks:
        tasks.start_soon(to_be_cancelled, rotulus)
        tasks.start_soon(enqueue_together, rotulus, "bc", answers)
        await anyio.wait_all_tasks_blocked()
        assert calls == [["a", "b", "c"]]
        first.cancel()
    assert calls[1:] == [["b", "c"]]
    assert answers == {"b": "request:b", "c": "request:c"}


async def test_who_only_waits_may_be_cancelled():
    gate = anyio.Event()

    async def late(request: httpx.Request) -> httpx.Response:
        await gate.wait()
        return taken(request)

    gateway, answers = ScriptedGateway(late), {}
    async with gateway.client() as rotulus, anyio.create_task_group() as tasks:
        for key in "abcd":
            tasks.start_soon(enqueue_together, rotulus, key, answers)
            await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(enqueue_together, rotulus, "e", answers)
            tasks.start_soon(enqueue_together, rotulus, "f", answers)
            await anyio.wait_all_tasks_blocked()
            waiting.cancel_scope.cancel()
        gate.set()
    assert sent(gateway)[4:] == [["f"]]
    assert sorted(answers) == ["a", "b", "c", "d", "f"]
