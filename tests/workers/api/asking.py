"""What a producer may ask for, and what a worker reports of it."""

from typing import Any

from kernel.work.contents import BINDING_QUEUE, EXTRACTION_QUEUE
from kernel.work.reports import TransitionDue
from tests.extraction_steps import extraction_step
from tests.kernel import attempts

BINDINGS, EXTRACTIONS = f"/v1/queues/{BINDING_QUEUE}", f"/v1/queues/{EXTRACTION_QUEUE}"


def binding(key: str, **content: Any) -> dict[str, Any]:
    stated = {"binding_id": "b-1", "source_event_id": f"e-{key}", **content}
    return {"request_key": key, "content": stated}


def step(run: str, **fields: Any) -> dict[str, Any]:
    return {"request_key": run, "content": extraction_step(run), **fields}


async def enqueued(door: Any, path: str, *requests: dict[str, Any]) -> list[dict[str, Any]]:
    response = await door.send(f"{path}/requests", {"requests": requests})
    assert response.status_code == 200, response.text
    recorded: list[dict[str, Any]] = response.json()["requests"]
    return recorded


async def done(door: Any, request_id: str) -> None:
    """A step of an extraction is recorded."""
    await report(door, EXTRACTION_QUEUE, TransitionDue(request_id=request_id))


async def given_up(door: Any, queue: str, request_id: str, signature: str) -> None:
    await report(door, queue, attempts.given_up(request_id=request_id, error_signature=signature))


async def report(door: Any, queue: str, outcome: Any) -> None:
    body = {"queue": queue, "reports": [outcome.model_dump()]}
    response = await door.reporter("work", body)
    assert response.json() == {"outcomes": [{"outcome": "completed"}]}, response.text
