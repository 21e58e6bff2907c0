"""Settings are shown without secrets: what may hold one is known by its type."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from workers.environment.settings import Settings, variable_of
from workers.environment.shown_settings import shown_settings

CANARY = "canary-of-a-secret-that-is-long-enough"
URLS = {
    "database_url": f"postgresql://user:{CANARY}@host/name",
    "redis_url": f"redis://user:{CANARY}@host:6379/0",
    "archive_url": f"file:///srv/{CANARY}",
}


def values() -> dict[str, Any]:
    """Return a value for each setting that may hold a secret, with the canary in it."""
    stated = dict(URLS)
    for name, field in Settings.model_fields.items():
        if name not in stated and _is_secret(name):
            stated[name] = CANARY
        elif name not in stated and not field.repr:
            stated[name] = f"http://user:{CANARY}@host/{CANARY}"
    return stated


def test_no_secret_is_shown_and_that_it_is_set_is():
    stated = values()
    assert len(stated) >= 12
    settings = Settings.model_construct(
        **{name: SecretStr(value) if _is_secret(name) else value for name, value in stated.items()}
    )
    rows = {row.variable: row for row in shown_settings(settings)}
    assert CANARY not in repr([*rows.values()])
    for name in stated:
        row = rows[variable_of(name)]
        assert row.is_masked, name
        assert row.value.startswith("set"), name
    assert rows["ROTULUS_REDIS_URL"].value == "set, redis://"
    assert rows["ROTULUS_DATABASE_URL"].value == "set"


def _is_secret(name: str) -> bool:
    return SecretStr.__name__ in repr(Settings.model_fields[name].annotation)


@pytest.mark.parametrize("word", ["secret", "password", "token", "url", "confirmation"])
def test_what_is_called_like_a_secret_is_masked_by_its_type(word: str):
    named = [name for name in Settings.model_fields if word in name.split("_")]
    for name in named:
        assert _is_secret(name) or not Settings.model_fields[name].repr, name


def test_what_is_no_secret_is_shown_with_whether_it_was_stated(tmp_path: Path):
    settings = Settings(data_dir=tmp_path, port=0, worker_queues=None)
    rows = {row.variable: row for row in shown_settings(settings)}
    assert rows.keys() == {variable_of(name) for name in Settings.model_fields}
    port = rows["ROTULUS_PORT"]
    assert (port.value, port.is_default, port.is_masked) == ("0", False, False)
    slots = rows["ROTULUS_WORKER_SLOTS"]
    assert (slots.value, slots.is_default) == ("2", True)
    assert rows["ROTULUS_DATABASE_URL"].value == "unset"
    assert rows["ROTULUS_ALLOW_REMOTE"].value == "false"
    assert all(row.meaning for row in rows.values())
