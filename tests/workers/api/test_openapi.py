"""The committed OpenAPI document is the one of the routes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests import openapi_doc
from tests.workers.api.answer_shapes import DOCUMENT, check_answer, has_shape, line_problems

SESSION = "/v1/sessions/{session_id}"


def test_the_committed_document_is_the_one_of_the_routes():
    assert openapi_doc.FILE.read_text() == openapi_doc.text(), "run `make openapi`"


@pytest.mark.spec("seed001-HTTP")
def test_every_endpoint_of_the_belief_server_is_in_it():
    paths = openapi_doc.document()["paths"]
    assert {
        ("post", "/v1/sessions"),
        ("post", f"{SESSION}/eliminate"),
        ("get", SESSION),
        ("get", f"{SESSION}/audit"),
        ("post", f"{SESSION}/obligations"),
        ("post", f"{SESSION}/obligations/{{obligation_id}}/exit"),
        ("post", f"{SESSION}/conclusions"),
        ("post", f"{SESSION}/terminate"),
    } <= {(method, path) for path, methods in paths.items() for method in methods}
    answer = paths[f"{SESSION}/terminate"]["post"]["responses"]["200"]
    schema = answer["content"]["application/json"]["schema"]
    assert schema["$ref"] == "#/components/schemas/Approval"


def test_every_json_answer_has_a_shape():
    answers = {
        (method, path, status): answer["content"]["application/json"]["schema"]
        for path, operations in DOCUMENT["paths"].items()
        for method, operation in operations.items()
        for status, answer in operation["responses"].items()
        if "application/json" in answer.get("content", {})
    }
    assert [place for place, schema in answers.items() if not has_shape(schema)] == []
    # Each operation answers with JSON, but for the stream of lines.
    operations = {
        (method, path) for path, methods in DOCUMENT["paths"].items() for method in methods
    }
    bulk = ("post", f"{SESSION}/operations:bulk")
    assert {(method, path) for method, path, status in answers if status[0] == "2"} == (
        operations - {bulk}
    )


def test_each_summary_is_words_of_the_description():
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            described = " ".join(operation["description"].split())
            assert described.startswith(operation["summary"]), (method, path)
            assert " " in operation["summary"], (method, path)


def test_the_content_of_a_request_is_in_it():
    schemas = DOCUMENT["components"]["schemas"]
    stated = schemas["RequestBody"]["properties"]["content"]["anyOf"]
    names = {shape["$ref"].rpartition("/")[2] for shape in stated if "$ref" in shape}
    assert names == {"BindingEvaluation", "ExtractionTransition", "ExtractionTask"}
    assert schemas["BindingEvaluation"]["properties"]["source_event_id"]["maxLength"] == 512


@pytest.mark.parametrize(
    "answer", [{}, {"put_back": 1}, {"put_back": True, "undeclared": 0}, [], None]
)
def test_an_answer_of_another_shape_fails_the_test_that_gets_it(answer):
    check_answer("POST", "/v1/shards/put-back", 200, {"put_back": True})
    with pytest.raises(AssertionError):
        check_answer("POST", "/v1/shards/put-back", 200, answer)


def test_the_document_has_one_error_for_every_route():
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            errors = {
                status: response["content"]["application/json"]["schema"]["$ref"]
                for status, response in operation["responses"].items()
                if not status.startswith("2") and (path, status) != ("/readyz", "503")
            }
            body = "#/components/schemas/ErrorBody"
            assert errors == {"4XX": body, "5XX": body}, (method, path)


def test_no_route_for_a_person_or_a_worker_is_in_the_document():
    paths = list(DOCUMENT["paths"])
    assert not [path for path in paths if path.startswith("/internal") or path in ("/", "/events")]


def test_what_tells_an_object_from_others_is_required():
    schemas = DOCUMENT["components"]["schemas"]
    discriminators = [
        part["discriminator"]
        for part in _parts(DOCUMENT)
        if "mapping" in part.get("discriminator", ())
    ]
    assert {each["propertyName"] for each in discriminators} == {"intent_kind"}
    for discriminator in discriminators:
        for reference in discriminator["mapping"].values():
            tagged = schemas[reference.rpartition("/")[2]]
            assert discriminator["propertyName"] in tagged["required"], reference


def test_a_stream_is_bytes_whose_lines_have_schemas():
    operation = DOCUMENT["paths"][f"{SESSION}/operations:bulk"]["post"]
    for line, content in (
        ("IntentLine", operation["requestBody"]["content"]),
        ("AnswerLine", operation["responses"]["200"]["content"]),
    ):
        stream = content["application/x-ndjson"]
        assert stream["schema"] == {"type": "string", "format": "binary"}
        assert stream["x-itemSchema"] == {"$ref": f"#/components/schemas/{line}"}
    intent = {"intent_kind": "create_case", "intent_key": "k", "case_ref": "c", "corpus_id": "c"}
    assert line_problems("IntentLine", json.dumps(intent)) == []
    assert line_problems("IntentLine", json.dumps({"intent_key": "k"}))
    refused = {"line": 1, "error": {"code": "INVALID_REQUEST", "message": "m"}}
    assert line_problems("AnswerLine", json.dumps(refused)) == []
    assert line_problems("AnswerLine", json.dumps({"line": 1}))


def _parts(part: Any) -> Iterator[dict[str, Any]]:
    """Every object below a part of the document."""
    if isinstance(part, dict):
        yield part
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for item in inner:
        yield from _parts(item)
