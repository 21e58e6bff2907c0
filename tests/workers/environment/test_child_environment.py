"""What a child process is given: what it needs by a table, and nothing of an operator's others."""

import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from workers.environment.child_environment import (
    MACHINE,
    SETTINGS_OF,
    child_environment,
    take_parent_pid,
)
from workers.environment.listening import take_listening
from workers.environment.settings import Settings, load_settings, variable_of

TOKEN = "correct-horse-battery"  # noqa: S105 - made up here
SECRETS_OF_PERSONS = {"key", "user_confirmation_key", "architect_confirmation_key"}
SECRETS_OF_WORKERS = {"database_url", "model_key", "worker_token"}
KINDS = sorted(SETTINGS_OF)


def secrets_of_settings() -> set[str]:
    fields = Settings.model_fields.items()
    return {name for name, field in fields if "SecretStr" in str(field.annotation)}


def test_every_setting_is_somebodys():
    of_processes = frozenset().union(*SETTINGS_OF.values())
    of_nobody = {"backup_key", "verified_head", "key", "key_file", "secrets_dir"}
    assert frozenset(Settings.model_fields) - of_processes == of_nobody
    assert of_processes <= frozenset(Settings.model_fields)


def test_a_worker_has_no_secret_but_those_it_reads_and_hands_in_with():
    assert secrets_of_settings() & SETTINGS_OF["worker"] == SECRETS_OF_WORKERS
    beyond = secrets_of_settings() - SETTINGS_OF["worker"]
    assert beyond == SECRETS_OF_PERSONS | {"webhook_secret", "oidc_client_secret"}


def loaded_by(env: dict[str, str]) -> Settings:
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            patch.delenv(name)
        for name, value in env.items():
            patch.setenv(name, value)
        assert take_parent_pid() == os.getpid()
        assert take_parent_pid() is None
        return load_settings()


@pytest.mark.parametrize("kind", KINDS)
@given(
    port=st.integers(0, 65_535),
    slots=st.integers(1, 64),
    idle_s=st.floats(0.001, 86_400),
    redis_url=st.sampled_from([None, "redis://:pw@localhost:1/2"]),
    remote=st.booleans(),
)
def test_a_child_process_loads_equal_settings_of_what_it_needs(
    kind, port, slots, idle_s, redis_url, remote
):
    settings = load_settings(
        port=port,
        worker_slots=slots,
        passivate_after_s=idle_s,
        redis_url=redis_url,
        allow_remote=remote,
        worker_token=SecretStr(TOKEN),
        model_key=SecretStr("hunter2"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("rotulus_port", "1")
        patch.setenv("ROTULUS_REDIS_URL", "redis://stale")
        loaded = loaded_by(child_environment(kind, settings))
    for name, field in Settings.model_fields.items():
        needed = name in SETTINGS_OF[kind]
        assert getattr(loaded, name) == (getattr(settings, name) if needed else field.default), name


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_machine_has_is_taken_by_name(monkeypatch, kind):
    for name in ("AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "PGPASSWORD", "OTEL_RESOURCE", "PWD"):
        monkeypatch.setenv(name, "hunter2")
    env = child_environment(kind, load_settings())
    ours = {name for name in env if name.startswith("ROTULUS_")}
    assert ours == {"ROTULUS_PARENT_PID"}
    assert {
        name for name in env.keys() - ours if not name.startswith(("LC_", "MALLOC_"))
    } <= MACHINE
    assert env["PATH"] == os.environ["PATH"]
    assert "hunter2" not in env.values()


@pytest.mark.parametrize(
    ("setting", "value", "variable"),
    [
        ("database_url", "postgresql://h/d", "PGSSLROOTCERT"),
        ("traces_url", "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_HEADERS"),
    ],
)
def test_a_library_that_a_setting_brings_in_is_given_its_own(monkeypatch, setting, value, variable):
    monkeypatch.setenv(variable, "x")
    for kind in KINDS:
        assert variable not in child_environment(kind, load_settings())
        assert child_environment(kind, load_settings(**{setting: value}))[variable] == "x"


def test_a_socket_is_handed_over_once(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        env = child_environment("gateway", load_settings(), listening)
        monkeypatch.setenv("ROTULUS_LISTENING_FD", env["ROTULUS_LISTENING_FD"])
        taken = take_listening()
        assert taken is not None
        assert taken.getsockname() == listening.getsockname()
        taken.detach()
    assert take_listening() is None


def test_a_variable_has_the_name_of_its_setting():
    assert variable_of("model_key") == "ROTULUS_MODEL_KEY"
