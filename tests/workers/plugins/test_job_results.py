"""What a function returns is written as JSON has it, and read again as what its annotation says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import httpx
import orjson
import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from kernel.values.canonical import canonicalize_readable
from rotulus import App
from rotulus.testing import Queues
from tests.workers.client.scripted_gateway import ScriptedGateway, taken
from tests.workers.client.test_blocking import blocking_client_of
from workers.client import JobAttempt, JobFailed, JobFailures, JobOutcome, JobResultInvalid
from workers.plugins.job_results import ResultForm

pytestmark = pytest.mark.anyio


class Size(BaseModel):
    width: int
    at: datetime | None = None


@dataclass
class Place:
    shelf: str
    row: int = 1


class Named(TypedDict):
    result: str


class Pair(NamedTuple):
    left: int
    right: int


class Colour(Enum):
    RED = "red"


NOW = datetime(2031, 5, 1, 12, 30, tzinfo=UTC)

VALUES: list[tuple[Any, Any, Any]] = [
    (dict[str, str], {"a": "b"}, {"a": "b"}),
    (dict[int, float], {1: 2.5, 2: 3.0}, {"1": 2.5, "2": 3.0}),
    (Mapping[str, Any], {"result": {"a": [1]}}, {"result": {"a": [1]}}),
    (Named, {"result": "r"}, {"result": "r"}),
    (Size, Size(width=3, at=NOW), {"width": 3, "at": "2031-05-01T12:30:00Z"}),
    (Size | None, Size(width=3), {"width": 3, "at": None}),
    (Size | None, None, {}),
    (Size | Place, Place("s"), {"shelf": "s", "row": 1}),
    (Place, Place("s", 2), {"shelf": "s", "row": 2}),
    (int, 4, {"result": 4}),
    (float, 4.0, {"result": 4}),
    (bool, False, {"result": False}),
    (int | None, None, {}),
    (int | None, 0, {"result": 0}),
    (int | dict[str, int], 5, {"result": 5}),
    (int | dict[str, int], {"result": 5}, {"result": {"result": 5}}),
    (list[Size], [Size(width=1)], {"result": [{"width": 1, "at": None}]}),
    (set[str], {"a"}, {"result": ["a"]}),
    (tuple[int, str], (1, "a"), {"result": [1, "a"]}),
    (Pair, Pair(1, 2), {"result": [1, 2]}),
    (Colour, Colour.RED, {"result": "red"}),
    (Decimal, Decimal("1.10"), {"result": "1.10"}),
    (UUID, UUID(int=1), {"result": "00000000-0000-0000-0000-000000000001"}),
    (Path, Path("a/b"), {"result": "a/b"}),
    (None, None, {}),
    (Any, {"a": 1}, {"a": 1}),
]


def returning(annotation: Any) -> Callable[[], Any]:
    def function() -> None: ...

    function.__annotations__["return"] = annotation
    return function


@pytest.mark.parametrize(("annotation", "value", "recorded"), VALUES)
def test_a_value_is_read_as_it_was_returned(annotation, value, recorded):
    form = ResultForm(returning(annotation))
    document = form.document_of(value)
    # As the record has it: None is an empty mapping there.
    kept = orjson.loads(canonicalize_readable(document or {}))
    assert kept == recorded
    read = form.value_of(kept)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("annotation", "recorded"),
    [
        (dict[str, str], {"a": 1}),
        (Size, {}),
        (Size, {"width": "3"}),
        (int, {"result": "4"}),
        (int, {"a": 4}),
        (int, {"result": 4, "a": 4}),
        (int, {}),
        (None, {"a": 4}),
        (Colour, {"result": "blue"}),
    ],
)
def test_what_is_of_another_type_is_not_read(annotation, recorded):
    with pytest.raises(ValueError, match=r"."):
        ResultForm(returning(annotation)).value_of(recorded)


def test_without_an_annotation_a_result_is_what_is_recorded():
    form = ResultForm(lambda: None)
    assert form.document_of(4) == form.value_of({"result": 4}) == {"result": 4}
    assert form.value_of({}) == {}


def test_what_is_no_json_is_left_for_who_reports_it():
    thing = object()
    assert ResultForm(returning(dict[str, Any])).document_of({"thing": thing}) == {"thing": thing}


def test_an_annotation_that_nobody_can_read_is_refused_where_it_is_declared():
    class Odd: ...

    def odd() -> Odd:
        return Odd()

    with pytest.raises(TypeError, match=r"odd: its result is no type that can be read"):
        App().job()(odd)


app = App()


@app.job()
async def measured(image_id: str) -> Size:
    return Size(width=len(image_id))


@app.job()
def lengths(text: str) -> list[int]:
    return [len(word) for word in text.split()]


@app.job()
async def wrong(name: str) -> dict[str, str]:
    return {"name": len(name)}  # type: ignore[dict-item]


async def test_who_asks_for_a_job_gets_what_its_function_returned():
    with Queues().taking() as queues:
        job = await measured.enqueue("i12")
        both = await lengths.enqueue_many([{"text": "a bc"}, {"text": " "}])
        await queues.drain()
        assert await job.value() == (await job.result()).result == Size(width=3)
        assert [await each.value() for each in both] == [[1, 2], []]
        assert (await job.status()).result == {"width": 3, "at": None}, "as it is on the record"


async def test_a_result_of_another_type_is_an_error_with_a_code_and_the_outcome():
    with Queues().taking() as queues:
        job = await wrong.enqueue("n")
        assert (await queues.drain()).failures == []
        for ask in (job.result, job.value):
            with pytest.raises(
                JobResultInvalid, match=r"of another type: name: Input should be a valid string"
            ) as raised:
                await ask()
            assert raised.value.code == "job_result_invalid"
            assert raised.value.outcome.state == "completed"
            assert raised.value.outcome.result == {"name": 1}


def ended(result: Any) -> Callable[[Any], Any]:
    def answer(request: httpx.Request) -> httpx.Response:
        ids = orjson.loads(request.content)["request_ids"]
        stated = [{"request_id": each, "state": "completed", "result": result} for each in ids]
        return httpx.Response(200, json={"outcomes": stated})

    return answer


def test_a_job_that_was_given_up_says_why_its_last_attempt_failed():
    attempt = JobAttempt(1, "handler_failed: OSError", "w", "", 3, "OSError", "no disk", "", "s")
    outcome: JobOutcome[Any] = JobOutcome("r", "dead_letter", reason="handler_failed: OSError")
    failed = JobFailed(outcome, JobFailures(attempts=(attempt,)))
    assert str(failed) == "r is dead_letter: handler_failed: OSError: no disk"
    refused = JobFailed(replace(outcome, reason="no disk"), JobFailures(attempts=(attempt,)))
    assert str(refused) == "r is dead_letter: no disk"
    cancelled = JobFailed(
        replace(outcome, state="cancelled", reason="not needed"), JobFailures(attempts=(attempt,))
    )
    assert str(cancelled) == "r is cancelled: not needed"


def test_a_client_for_threads_gets_it_too():
    gateway = ScriptedGateway(taken, ended({"width": 3}))
    with blocking_client_of(gateway) as rotulus:
        job = rotulus.enqueue(measured.options(key="k", tags={"a": "b"}).request("i12"))
        assert job.value() == Size(width=3)
        [outcome] = rotulus.outcomes([job], 1)
        assert outcome.result == {"width": 3}, "as it is on the record"
    assert gateway.bodies[0]["requests"] == [
        {"request_key": "k", "content": {"image_id": "i12"}, "tags": {"a": "b"}}
    ]


async def test_a_request_has_its_own_options_and_no_others():
    gateway = ScriptedGateway(taken)
    async with gateway.client() as rotulus:
        with pytest.raises(TypeError, match="state them there"):
            await rotulus.enqueue(measured.request("i12"), key="k")  # type: ignore[call-overload]
    assert gateway.requests == []
