"""`make openapi`: the OpenAPI document of the gateway, from its routes alone.

What it writes is `workers/api/openapi.json`; a test fails when that file says anything else.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any, cast

from fastapi import APIRouter

from tests.kernel.build import FakeHost
from workers.api.app import build_app
from workers.api.middleware.admission import Admission
from workers.api.openapi_document import openapi_document
from workers.api.services import Health
from workers.views.surroundings import FleetServices


def document() -> dict[str, Any]:
    services = cast(
        "Any", SimpleNamespace(admission=Admission(1), fleet=FleetServices(), health=Health())
    )
    app = build_app(services, APIRouter(), hosts=frozenset(), host=FakeHost().host)
    return openapi_document(app)


def text() -> str:
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
