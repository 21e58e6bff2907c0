"""A gateway that answers as a test says, and a client of it that does not sleep."""

import json
from typing import Any

import httpx

from workers.client import BindingEvaluation, Rotulus

WORK = BindingEvaluation(binding_id="b", source_event_id="e")


class ScriptedGateway:
    """Answers in turn, the last answer for ever, and remembers what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.pauses_s: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses_s.append(seconds)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else await answer

    def client(self, *urls: str, **options: Any) -> Rotulus:
        transport = httpx.MockTransport(self)
        return Rotulus(*(urls or ("http://g",)), sleep=self.sleep, transport=transport, **options)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]


def refusal(status: int, code: str, headers: Any = None, **details: Any) -> httpx.Response:
    body = {"error": {"code": code, "message": "why", "details": details}}
    return httpx.Response(status, json=body, headers=headers)


def taken(request: httpx.Request) -> httpx.Response:
    keys = [open_request["request_key"] for open_request in json.loads(request.content)["requests"]]
    receipts = [{"request_id": f"request:{key}", "duplicate": False} for key in keys]
    return httpx.Response(200, json={"requests": receipts})


def outcomes(request: httpx.Request, *ended: str) -> httpx.Response:
    """Answer what jobs came to: those named have ended."""
    stated = [
        {"request_id": name, "state": "completed" if name in ended else "open"}
        for name in json.loads(request.content)["request_ids"]
    ]
    return httpx.Response(200, json={"outcomes": stated})
