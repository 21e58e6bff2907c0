"""The producers' client: safe to send again, patient where that helps, and clear where not."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import anyio
import httpx
import pytest

from tests.workers.client.scripted_gateway import WORK, ScriptedGateway, outcomes, refusal, taken
from workers.api.body_limits import MAX_BODY_BYTES
from workers.client import BindingEvaluation, ExtractionTask, GatewayError, JobLost, NewRequest
from workers.client.gateway_http import PAUSE_FIRST_S, PAUSE_MAX_S

pytestmark = pytest.mark.anyio

OPEN = {"request_id": "r", "state": "open"}
ENDED = {"request_id": "r", "state": "completed", "operation_id": "op", "unheard_of": 1}
TASK = ExtractionTask(extraction_run_id="r", source_ref="s", corpus_id="c")


def answer(*stated: Any) -> httpx.Response:
    return httpx.Response(200, json={"outcomes": stated})


@pytest.mark.spec("K6")
@pytest.mark.parametrize(
    "trouble",
    [
        refusal(429, "work_requests_too_many"),
        refusal(503, "commit_failed"),
        refusal(503, "gateway_full"),
        refusal(408, "body_too_slow"),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut off"),
    ],
)
async def test_a_call_has_one_key_however_often_it_is_sent(trouble):
    gateway = ScriptedGateway(trouble, trouble, taken)
    async with gateway.client() as rotulus:
        job = await rotulus.enqueue(WORK)
        other = await rotulus.enqueue(WORK)
    first, second, third, fourth = gateway.bodies
    assert first == second == third
    assert job.request_id == f"request:{first['requests'][0]['request_key']}"
    assert job.key == first["requests"][0]["request_key"]
    assert other.request_id != job.request_id
    assert first != fourth


async def test_a_pause_is_at_least_as_long_as_the_gateway_says():
    gateway = ScriptedGateway(refusal(429, "work_requests_too_many", {"Retry-After": "7"}), taken)
    async with gateway.client() as rotulus:
        await rotulus.enqueue(WORK)
    assert gateway.pauses_s[0] >= 7


async def test_patience_ends_with_the_last_reason():
    for trouble, code in (
        (refusal(429, "work_requests_too_many"), "work_requests_too_many"),
        (httpx.ConnectError("refused"), "gateway_unreachable"),
    ):
        gateway = ScriptedGateway(trouble)
        async with gateway.client(give_up_after_s=1.0) as rotulus:
            with pytest.raises(GatewayError) as caught:
                await rotulus.enqueue(WORK)
        assert caught.value.code == code
        assert sum(gateway.pauses_s) >= 1.0
        assert gateway.pauses_s[0] >= PAUSE_FIRST_S


async def test_a_gateway_that_is_away_is_asked_for_a_minute():
    gateway = ScriptedGateway(httpx.ConnectError("refused"))
    async with gateway.client() as rotulus:
        with pytest.raises(GatewayError):
            await rotulus.enqueue(WORK)
    assert 60 <= sum(gateway.pauses_s) < 60 + 2 * PAUSE_MAX_S


async def test_what_was_refused_is_not_sent_again_and_says_which_and_why():
    gateway = ScriptedGateway(
        taken, refusal(409, "work_request_conflict", field="request_key", index=3)
    )
    async with gateway.client() as rotulus:
        with pytest.raises(GatewayError) as caught:
            await rotulus.enqueue_many([WORK] * 300)
    error = caught.value
    assert (error.code, error.status, error.field) == ("work_request_conflict", 409, "request_key")
    assert str(error) == "request_key: why"
    assert error.message == "why"
    assert error.index == 259
    assert len(error.jobs) == 256
    assert len(gateway.requests) == 2


async def test_an_answer_of_something_else_is_an_error_of_its_own():
    gateway = ScriptedGateway(httpx.Response(500, text="<html>"))
    async with gateway.client() as rotulus:
        with pytest.raises(GatewayError) as caught:
            await rotulus.job("binding-evaluation", "r").status()
    assert (caught.value.code, caught.value.status) == ("gateway_failed", 500)


async def test_many_are_sent_in_chunks_of_one_queue_and_only_what_was_stated():
    gateway, progress = ScriptedGateway(taken), []
    full = NewRequest({"a": 1}, queue="q", key="k", priority="critical", delay_s=5)
    wanted = [full, *[WORK] * 600, TASK]
    async with gateway.client() as rotulus:
        jobs = await rotulus.enqueue_many(iter(wanted), progress=progress.append)
    assert [len(body["requests"]) for body in gateway.bodies] == [1, 256, 256, 88, 1]
    assert [request.url.path.split("/")[3] for request in gateway.requests] == [
        "q",
        *["binding-evaluation"] * 3,
        "extraction-transition",
    ]
    assert (len(jobs), progress) == (602, [1, 257, 513, 601, 602])
    assert gateway.bodies[0]["requests"][0] == {
        "request_key": "k",
        "content": {"a": 1},
        "priority": "critical",
        "delay_s": 5,
    }
    [last] = gateway.bodies[-1]["requests"]
    assert set(last) == {"request_key", "content"}
    assert last["content"] == {
        "extraction_run_id": "r",
        "source_ref": "s",
        "corpus_id": "c",
        "fields": [],
        "cause": "extraction_requested",
        "schema_version": 1,
    }


async def test_a_time_is_sent_in_utc_and_has_a_zone():
    gateway = ScriptedGateway(taken)
    noon = datetime(2031, 5, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    async with gateway.client() as rotulus:
        await rotulus.enqueue(WORK, run_at=noon)
        with pytest.raises(GatewayError) as caught:
            await rotulus.enqueue(WORK, run_at=noon.replace(tzinfo=None))
    assert gateway.bodies[0]["requests"][0]["run_at"] == "2031-05-01T10:00:00.000000Z"
    assert (caught.value.code, caught.value.field) == ("work_request_invalid", "run_at")
    assert noon.astimezone(UTC).hour == 10


async def test_a_call_is_never_larger_than_a_gateway_takes():
    gateway = ScriptedGateway(taken)
    async with gateway.client() as rotulus:
        jobs = await rotulus.enqueue_many([NewRequest({"x": "y" * 32_000}, queue="q")] * 300)
    assert len(jobs) == 300
    assert sum(len(body["requests"]) for body in gateway.bodies) == 300
    assert max(len(request.content) for request in gateway.requests) < MAX_BODY_BYTES


@pytest.mark.parametrize(
    "spoiled",
    [
        NewRequest({"x": float("nan")}, queue="q"),
        NewRequest({"x": object()}, queue="q"),
        NewRequest({"x": 1}),
    ],
)
async def test_what_cannot_be_sent_is_refused_by_its_number_and_what_came_before_is_known(spoiled):
    gateway = ScriptedGateway(taken)
    async with gateway.client() as rotulus:
        with pytest.raises(GatewayError) as caught:
            await rotulus.enqueue_many([*[WORK] * 257, spoiled])
    assert (caught.value.code, caught.value.index) == ("work_request_invalid", 257)
    assert len(caught.value.jobs) == 256


async def test_an_outcome_is_asked_for_until_it_is_there():
    second = ENDED | {"request_id": "s"}
    gateway, progress = ScriptedGateway(answer(OPEN, second), answer(ENDED, second)), []
    async with gateway.client() as rotulus:
        jobs = [rotulus.job("q", name) for name in "rs"]
        ended = await rotulus.outcomes(jobs, 60, progress=progress.append)
    assert [outcome.state for outcome in ended] == ["completed", "completed"]
    assert progress == [1, 2]
    assert all(0 < body["wait_s"] <= 30 for body in gateway.bodies)
    assert {body["until"] for body in gateway.bodies} == {"all"}


async def test_after_the_deadline_it_is_said_what_is_still_open():
    gateway = ScriptedGateway(answer(OPEN))
    async with gateway.client() as rotulus:
        job = rotulus.job("q", "r")
        with anyio.fail_after(10):
            for timeout_s in (0, 0.05):
                [outcome] = await rotulus.outcomes([job], timeout_s)
                assert outcome.state == "open"
                with pytest.raises(TimeoutError, match="r is open"):
                    await job.result(timeout=timeout_s)


async def test_a_result_does_not_wait_longer_for_a_gateway_that_is_away():
    gateway = ScriptedGateway(httpx.ConnectError("refused"))
    gateway.sleep = anyio.sleep  # type: ignore[method-assign]
    async with gateway.client() as rotulus:
        with anyio.fail_after(10), pytest.raises(TimeoutError):
            await rotulus.job("q", "r").result(timeout=0.01)


async def test_jobs_that_are_waited_for_together_are_asked_about_together():
    ended: list[str] = []

    def one_more(request: httpx.Request) -> httpx.Response:
        ended.append(f"request-{len(ended)}")
        return outcomes(request, *ended)

    gateway, states = ScriptedGateway(one_more), []
    async with gateway.client() as rotulus:

        async def wait(number: int) -> None:
            states.append((await rotulus.job("q", f"request-{number}").result(60)).request_id)

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(wait, number)
    assert states == [f"request-{number}" for number in range(5)], "each as soon as it has ended"
    assert [len(body["request_ids"]) for body in gateway.bodies] == [5, 4, 3, 2, 1]
    assert {body["until"] for body in gateway.bodies} == {"any"}


async def test_as_many_are_open_as_may_be_and_each_is_told_when_it_ends():
    """The gateway ends the oldest of those that it is asked about."""

    def play(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/requests"):
            return taken(request)
        [oldest, *_] = gateway.bodies[-1]["request_ids"]
        return outcomes(request, oldest)

    gateway, read = ScriptedGateway(play), []

    def wanted():
        for number in range(20):
            read.append(number)
            yield NewRequest(WORK, key=str(number))

    keys, ahead = [], []
    async with gateway.client() as rotulus:
        async for job, outcome in rotulus.run_many(wanted(), open_max=8):
            assert (outcome.state, outcome.request_id) == ("completed", job.request_id)
            keys.append(job.key)
            ahead.append(len(read) - len(keys))
    assert keys == [str(number) for number in range(20)]
    assert max(ahead) <= 8
    asked_for = [len(body["requests"]) for body in gateway.bodies if "requests" in body]
    assert asked_for == [8, 2, 2, 2, 2, 2, 2]


async def test_a_run_that_is_refused_tells_what_it_leaves_open():
    gateway = ScriptedGateway(taken, outcomes, refusal(404, "work_request_unknown"))
    async with gateway.client() as rotulus:
        with pytest.raises(GatewayError) as caught:
            async for _ in rotulus.run_many([WORK] * 3):
                pass
        assert len(caught.value.jobs) == 3
        with pytest.raises(ValueError, match="open_max is 1 to 256"):
            await anext(rotulus.run_many([WORK], open_max=257))


@pytest.mark.parametrize(
    ("status", "code"), [(404, "work_request_unknown"), (410, "work_request_lost")]
)
async def test_a_job_that_was_taken_and_is_on_the_record_no_longer_is_lost(status, code):
    gateway = ScriptedGateway(taken, refusal(status, code))
    async with gateway.client() as rotulus:
        job = await rotulus.enqueue(WORK)
        with pytest.raises(JobLost) as lost:
            await job.result()
    assert (lost.value.code, lost.value.status) == ("work_request_lost", status)
    assert job.request_id in lost.value.message


async def test_a_job_that_nobody_is_known_to_have_asked_for_is_unknown():
    gateway = ScriptedGateway(refusal(404, "work_request_unknown"))
    async with gateway.client() as rotulus:
        with pytest.raises(GatewayError) as unknown:
            await rotulus.job("binding-evaluation", "r").result()
    assert not isinstance(unknown.value, JobLost)


@pytest.mark.parametrize("name", ["a/b", "a?b#c", "u-1 ü", "request:1:n"])
async def test_any_name_is_one_part_of_the_path(name):
    gateway = ScriptedGateway(refusal(404, "work_request_unknown"))
    async with gateway.client() as rotulus:
        with pytest.raises(GatewayError):
            await rotulus.job("binding-evaluation", name).cancel("why")
    path = gateway.requests[0].url.path
    assert path == f"/v1/queues/binding-evaluation/requests/{name}/cancel"


async def test_who_takes_a_job_back_is_sent_where_it_is_given():
    """A gateway of an earlier version refuses fields that it does not know."""
    gateway = ScriptedGateway(*[httpx.Response(200, json={"cancelled": True})] * 2)
    async with gateway.client() as rotulus:
        job = rotulus.job("binding-evaluation", "r")
        assert await job.cancel("why")
        assert await job.cancel("why", decided_by="ada")
    assert gateway.bodies == [{"reason": "why"}, {"reason": "why", "decided_by": "ada"}]


async def test_a_recompute_is_a_job_where_one_stands_for_the_node():
    receipt = {"duplicate": True, "request": {"request_id": "r"}}
    gateway = ScriptedGateway(
        httpx.Response(202, json=receipt), httpx.Response(202, json=receipt | {"request": None})
    )
    async with gateway.client() as rotulus:
        job = await rotulus.recompute("corpus/u 1", key="mine")
        nobody = await rotulus.recompute("corpus/u 1")
    assert job is not None
    assert (job.queue, job.request_id, job.key) == ("authority-recompute", "r", "mine")
    assert job.is_duplicate
    assert nobody is None
    assert gateway.requests[0].url.path == "/v1/authority/corpus/u 1/recompute"
    mine, new = (body["trigger_source_id"] for body in gateway.bodies)
    assert mine == "mine" != new


async def test_a_list_is_read_page_by_page():
    pages = [
        httpx.Response(200, json={"operations": [{"n": 1}, {"n": 2}], "next_after": 2}),
        httpx.Response(200, json={"operations": [], "next_after": 9}),
        httpx.Response(200, json={"operations": [{"n": 3}], "next_after": None}),
    ]
    gateway = ScriptedGateway(*pages)
    since = datetime(2031, 5, 1, tzinfo=UTC)
    async with gateway.client() as rotulus:
        listed = rotulus.records.operations(actor="a", declared=True, since=since, until=None)
        assert [entry["n"] async for entry in listed] == [1, 2, 3]
    queries = [dict(request.url.params) for request in gateway.requests]
    assert queries[0] == {
        "limit": "100",
        "actor": "a",
        "declared": "true",
        "since": "2031-05-01T00:00:00+00:00",
    }
    assert [query.get("after") for query in queries] == [None, "2", "9"]


async def test_another_gateway_is_asked_where_the_first_does_not_answer():
    gateway = ScriptedGateway(
        lambda request: httpx.ConnectError("away") if request.url.host == "a" else taken(request)
    )
    async with gateway.client("http://a", "http://b") as rotulus:
        await rotulus.enqueue(WORK)
        await rotulus.enqueue(BindingEvaluation(binding_id="c", source_event_id="e"))
    assert [request.url.host for request in gateway.requests] == ["a", "b", "b"]


async def test_who_waits_for_a_job_that_was_requeued_gets_the_outcome_of_the_newest_request():
    def outcome(request: httpx.Request) -> httpx.Response:
        [name] = json.loads(request.content)["request_ids"]
        ends = {"request:k": ("dead_letter", "request:anew"), "request:anew": ("completed", None)}
        state, requeued_as = ends[name]
        stated = {"request_id": name, "state": state, "requeued_as": requeued_as}
        return httpx.Response(200, json={"outcomes": [stated]})

    gateway = ScriptedGateway(taken, outcome)
    async with gateway.client() as rotulus:
        job = await rotulus.enqueue(WORK, key="k")
        ended = await job.result(timeout=20)
    assert (ended.request_id, ended.state) == ("request:anew", "completed")
