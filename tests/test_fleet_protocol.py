"""What the processes of a fleet say to each other has a version, and other versions are left alone.

Where this finds another form than that of the version, the version is raised
(`kernel/values/fleet_protocol.py`), and the digest is entered under the new one.
"""

from dataclasses import fields
from typing import Any

import orjson
from pydantic import BaseModel
from typing_extensions import is_typeddict

from actors import messages
from actors.messages import Message
from kernel.values.canonical import digest
from kernel.values.fleet_protocol import PROTOCOL, is_spoken, protocol_payload
from queues.fleet.worker_heartbeats import WorkerBeat
from workers.api.routes import cron_jobs, worker_reports

FORMS = {11: "7d426495e4e2920432896fc98d628f17b0952c68883bbcdf3ad35a33c1a3ebb4"}
"""The digest of everything that is said, by the version that says it."""


_ROUTES = (cron_jobs.__name__, worker_reports.__name__)


def _shape(schema: Any) -> Any:
    """A schema without its words."""
    if isinstance(schema, dict):
        words = ("description", "title")
        return {name: _shape(value) for name, value in schema.items() if name not in words}
    return [_shape(value) for value in schema] if isinstance(schema, list) else schema


def _fields(kind: type) -> dict[str, str]:
    return {field.name: str(field.type) for field in fields(kind)}


def _forms() -> dict[str, Any]:
    kinds = [kind for kind in vars(messages).values() if isinstance(kind, type)]
    routes = [each for module in (cron_jobs, worker_reports) for each in vars(module).values()]
    own = [each for each in routes if isinstance(each, type) and each.__module__ in _ROUTES]
    bodies = [each for each in own if issubclass(each, BaseModel)]
    return {
        "mail": {kind.__name__: _fields(kind) for kind in kinds if issubclass(kind, Message)},
        "reports": {body.__name__: _shape(body.model_json_schema()) for body in bodies},
        "answers to reports": {
            answer.__name__: {name: str(kind) for name, kind in answer.__annotations__.items()}
            for answer in own
            if is_typeddict(answer)
        },
        "heartbeat": _fields(WorkerBeat),
    }


def test_the_forms_of_what_is_said_are_those_of_the_version():
    assert digest(_forms()) == FORMS[PROTOCOL]


def test_a_payload_says_its_version_and_another_one_is_not_spoken():
    payload = protocol_payload({"request_id": "r"})
    assert orjson.loads(payload) == {"protocol": PROTOCOL, "request_id": "r"}
    assert is_spoken(payload)
    assert is_spoken(b'{"request_id":"r"}')
    assert not is_spoken(b'{"protocol":%d,"request_id":"r"}' % (PROTOCOL + 1))
    assert not is_spoken(b'{"protocol":%d1,"request_id":"r"}' % PROTOCOL)
