"""The committed OpenAPI document is the one of the routes."""

from pathlib import Path

import pytest

import workers.api
from tests import openapi_doc

FILE = Path(workers.api.__file__).with_name("openapi.json")
SESSION = "/v1/sessions/{session_id}"


def test_the_committed_document_is_the_one_of_the_routes():
    assert FILE.read_text() == openapi_doc.text(), "run `make openapi`"


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
