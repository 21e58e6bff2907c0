"""Holds every answer that a test gets to the shape that the OpenAPI document declares for it.

A field that a shape does not declare fails the test too: what is not in the document is not sent.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs

import workers.api

DOCUMENT = json.loads(Path(workers.api.__file__).with_name("openapi.json").read_text())


async def check_shape(response: httpx.Response) -> None:
    """Fail where a JSON answer is not as declared; `/internal` is not in the document."""
    if not is_json(response):
        return
    await response.aread()
    request = response.request
    if request.url.path.startswith("/v1/"):
        check_answer(request.method, request.url.path, response.status_code, response.json())


def is_json(response: httpx.Response) -> bool:
    """Whether there is a JSON document; the answer to HEAD has the head of one alone."""
    is_head = response.request.method == "HEAD"
    return response.headers.get("content-type") == "application/json" and not is_head


def check_answer(method: str, path: str, status: int, answer: Any) -> None:
    validator = _validator(_declared(method, path, status))
    problems = [error.message for error in validator.iter_errors(answer)]
    assert not problems, f"{method} {path} {status}: {problems[:3]} in {json.dumps(answer)[:2000]}"


def line_problems(line: str, content: str) -> list[str]:
    """What is wrong with the lines of a stream, whose schema has this name."""
    validator = _validator(json.dumps({"$ref": f"#/components/schemas/{line}"}))
    lines = [json.loads(text) for text in content.splitlines()]
    return [error.message for text in lines for error in validator.iter_errors(text)]


def has_shape(schema: Any) -> bool:
    """Whether a schema says which fields there are, of each thing that an answer may be."""
    if "$ref" in schema:
        return has_shape(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    return bool(schema.get("properties")) or (
        "anyOf" in schema and all(has_shape(part) for part in schema["anyOf"])
    )


def _declared(method: str, path: str, status: int) -> str:
    """The schema of the answer, as JSON: that of the most literal template that admits the path.

    What is not in the document can only be refused.
    """
    templates = [
        template
        for template, operations in DOCUMENT["paths"].items()
        if method.lower() in operations and _pattern(template).fullmatch(path)
    ]
    if not templates:
        assert status >= 400, f"{method} {path} is not in the document"
        return json.dumps({"$ref": "#/components/schemas/ErrorBody"})
    template = max(templates, key=lambda template: len(_literal(template)))
    responses = DOCUMENT["paths"][template][method.lower()]["responses"]
    answer = responses.get(str(status)) or responses.get(f"{status // 100}XX")
    assert answer is not None, f"{method} {template} declares no {status}"
    return json.dumps(answer["content"]["application/json"]["schema"])


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", ".+", re.escape(template)), re.DOTALL)


def _literal(template: str) -> str:
    return re.sub(r"\{\w+\}", "", template)


@cache
def _validator(schema: str) -> Any:
    return jsonschema_rs.validator_for(
        {**_closed(json.loads(schema)), "components": _closed_components()}
    )


@cache
def _closed_components() -> Any:
    return _closed(DOCUMENT["components"])


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed
