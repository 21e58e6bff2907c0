"""`make openapi`: the OpenAPI document of the gateway, from its routes alone.

What it writes is `workers/api/openapi.json`; a test fails when that file says anything else.
"""

import json
import sys
from pathlib import Path
from typing import Any

import workers.api
from workers.api.openapi_document import openapi_document

FILE = Path(workers.api.__file__).with_name("openapi.json")


def document() -> dict[str, Any]:
    """Return what the file says, which takes a fiftieth of making it of the routes."""
    kept: dict[str, Any] = json.loads(FILE.read_text())
    return kept


def text() -> str:
    return json.dumps(openapi_document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
