"""Holds the processes of a deployment against the table of settings.

Compose, systemd and Kubernetes each say which variables a process has, and which files of secrets;
what they say is read into the same form, so that one function says what is wrong with it.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

import pytest

from workers.cli.main import COMMANDS
from workers.environment.child_environment import SETTINGS_OF, Kind
from workers.environment.settings import (
    ENV_PREFIX,
    Settings,
    SettingsError,
    load_settings,
    variable_of,
)

DEPLOY: Final = Path(__file__).parents[2] / "deploy"

SECRETS: Final[Mapping[str, str]] = {
    "ROTULUS_DATABASE_URL": "postgresql://rotulus:password@postgres/rotulus",
    "ROTULUS_REDIS_URL": "redis://rotulus:password@valkey:6379",
    "ROTULUS_WORKER_TOKEN": "a token for the tests",
}
"""A value for each secret that a deployment has."""

_EVERY: Final = ("database_url", "redis_url", "worker_token", "data_dir", "log_format")
REQUIRED: Final[Mapping[Kind, tuple[str, ...]]] = {
    # Behind a proxy everybody comes from the proxy's machine.
    "gateway": (*_EVERY, "access"),
    "worker": (*_EVERY, "gateway_url", "worker_metrics_port"),
}
"""Settings that a process of a fleet is given, whatever starts it."""

_NO_SETTING: Final = frozenset({"SITE", "POD_IP"})
"""Variables from which others are made."""


@dataclass(frozen=True)
class Process:
    """A process as a deployment describes it."""

    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str]
    secrets: frozenset[str] = frozenset()
    ports: frozenset[int] = field(default=frozenset())
    """Those that the deployment opens or asks it at; none where it does not say."""

    @property
    def kind(self) -> Kind:
        """What it runs."""
        return "worker" if self.command[0] == "worker" else "gateway"

    def without(self, variable: str) -> Self:
        """Return it without a variable, or its secret."""
        variables = {name: text for name, text in self.variables.items() if name != variable}
        return replace(self, variables=variables, secrets=self.secrets - {variable})

    def with_variable(self, name: str, value: str) -> Self:
        """Return it with one more variable, or another value of it."""
        return replace(self, variables={**self.variables, name: value})


def image_variables() -> dict[str, str]:
    """Return the settings that the image brings."""
    text = (DEPLOY / "container" / "Containerfile").read_text().replace("\\\n", "")
    lines = [line.removeprefix("ENV ") for line in text.splitlines() if line.startswith("ENV ")]
    pairs = [pair.partition("=") for line in lines for pair in shlex.split(line)]
    return {name: value for name, _, value in pairs if name.startswith(ENV_PREFIX)}


def problems_of(process: Process, folder: Path) -> list[str]:
    """Return what the product does not take of a process; `folder` is for files of secrets."""
    return [f"{process.name}: {problem}" for problem in _problems_of(process, folder)]


def _problems_of(process: Process, folder: Path) -> Iterator[str]:
    if process.command[0] not in COMMANDS:
        yield f"there is no command {process.command[0]}"
    named = {*process.variables, *process.secrets}
    known = {variable_of(name): name for name in Settings.model_fields}
    for variable in sorted(named - _NO_SETTING):
        setting = known.get(variable)
        if setting is None:
            yield f"{variable} is no setting"
        elif setting not in SETTINGS_OF[process.kind] | {"secrets_dir"}:
            yield f"{variable} is no setting of a {process.kind}"
    for setting in REQUIRED[process.kind]:
        if variable_of(setting) not in named:
            yield f"{variable_of(setting)} is missing"
    try:
        settings = settings_of(process, folder)
    except SettingsError as error:
        yield from (f"{name}: {code}" for name, code, _ in error.problems)
        return
    if process.secrets and settings.secrets_dir is None:
        yield "it is not said where its secrets are"
    port = settings.worker_metrics_port if process.kind == "worker" else settings.port
    if not process.ports <= {port}:
        yield f"it listens at {port}, and is asked at {sorted(process.ports)}"


def settings_of(process: Process, folder: Path) -> Settings:
    """Return the settings that a process would load.

    Raises:
        SettingsError: it would end.
    """
    for path in folder.iterdir():
        path.unlink()
    for name in process.secrets:
        (folder / name).write_text(SECRETS[name])
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
            patch.delenv(name)
        for name, value in process.variables.items():
            if name.startswith(ENV_PREFIX):
                patch.setenv(name, value)
        if variable_of("secrets_dir") in process.variables:
            patch.setenv(variable_of("secrets_dir"), str(folder))
        return load_settings()


def changed(process: Process) -> Iterator[tuple[str, Process]]:
    """Yield a process once for each thing that would be wrong with it, and what is said of it."""
    for setting in REQUIRED[process.kind]:
        variable = variable_of(setting)
        yield f"{variable} is missing", process.without(variable)
    misspelt = process.with_variable("ROTULUS_LOG_LEVLE", "info")
    yield "ROTULUS_LOG_LEVLE is no setting", misspelt
    other = "ROTULUS_PATH_PREFIX" if process.kind == "worker" else "ROTULUS_GATEWAY_URL"
    yield f"{other} is no setting of a {process.kind}", process.with_variable(other, "/x")
    yield "ROTULUS_LOG_FORMAT: ", process.with_variable("ROTULUS_LOG_FORMAT", "yaml")
    yield "is asked at", replace(process, ports=frozenset({1}))
    yield "there is no command", replace(process, command=("gatewya",))
    unread = process.without(variable_of("secrets_dir"))
    yield "it is not said where its secrets are", unread
    if "ROTULUS_HOST" in process.variables:
        yield "host_not_loopback", process.without(variable_of("allow_remote"))
        yield "allowed_hosts_missing", process.without(variable_of("allowed_hosts"))
