"""Reads the standing bindings of dockets from `bindings.json`: what each selects and makes.

An intent is named by what it states, so a set that is sent again is recognised, and one of another
release finds its bindings there and leaves them as they are.
"""

import hashlib
from importlib.resources import files
from typing import Any

import orjson

DIGEST_CHARS_IN_KEY = 16


def standing_bindings() -> list[dict[str, Any]]:
    """Return the intents that create them."""
    bindings = orjson.loads((files(__package__) / "bindings.json").read_bytes())
    return [
        {
            **binding,
            "intent_kind": "source_binding_create",
            "intent_key": f"standing:{binding['binding_id']}:{_digest(binding)}",
        }
        for binding in bindings
    ]


def _digest(binding: dict[str, Any]) -> str:
    stated = orjson.dumps(binding, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(stated).hexdigest()[:DIGEST_CHARS_IN_KEY]
