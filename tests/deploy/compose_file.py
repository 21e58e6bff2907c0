"""Reads `deploy/compose/compose.yaml`, and says what refers to nothing in it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from tests.deploy.processes import DEPLOY, Process, image_variables

FOLDER: Final = DEPLOY / "compose"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TOP: Final = _words("name services networks volumes secrets configs include")
_SERVICE: Final = _words(
    "annotations attach blkio_config build cap_add cap_drop cgroup cgroup_parent command configs"
    " container_name cpu_count cpu_percent cpu_period cpu_quota cpu_rt_period cpu_rt_runtime"
    " cpu_shares cpus cpuset credential_spec depends_on deploy develop device_cgroup_rules devices"
    " dns dns_opt dns_search domainname entrypoint env_file environment expose extends"
    " external_links extra_hosts gpus group_add healthcheck hostname image init ipc isolation"
    " labels label_file links logging mac_address mem_limit mem_reservation mem_swappiness"
    " memswap_limit network_mode networks oom_kill_disable oom_score_adj pid pids_limit platform"
    " ports post_start pre_stop privileged profiles provider pull_policy read_only restart runtime"
    " scale secrets security_opt shm_size stdin_open stop_grace_period stop_signal storage_opt"
    " sysctls tmpfs tty ulimits use_api_socket user userns_mode uts volumes volumes_from"
    " working_dir"
)
_CHECK: Final = _words("disable interval retries start_interval start_period test timeout")
_CONDITIONS: Final = frozenset(
    {"service_started", "service_healthy", "service_completed_successfully"}
)
_ROTULUS: Final = re.compile(r"(gateway|worker)-\d+")
_SUBSTITUTED: Final = re.compile(r"\$\{\w+:-([^}]*)\}")


def compose_file() -> dict[str, Any]:
    """Return the file, each variable of the shell at its default."""
    text = _SUBSTITUTED.sub(r"\1", (FOLDER / "compose.yaml").read_text())
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def processes(document: Mapping[str, Any]) -> dict[str, Process]:
    """Return the gateways and workers of a file, by the names of their services."""
    targets = _targets()
    return {
        name: Process(
            name,
            tuple(service["command"]),
            {**image_variables(), **service["environment"]},
            frozenset(service["secrets"]),
            frozenset(port for host, port in targets if host == name),
        )
        for name, service in document["services"].items()
        if _ROTULUS.fullmatch(name)
    }


def _targets() -> list[tuple[str, int]]:
    """Return the hosts and ports of our processes that the files beside it name."""
    texts = [(FOLDER / name).read_text() for name in ("Caddyfile", "prometheus.yml")]
    pairs = [pair for text in texts for pair in re.findall(r"((?:gateway|worker)-\d+):(\d+)", text)]
    return [(host, int(port)) for host, port in pairs]


def problems_in(document: Mapping[str, Any]) -> list[str]:
    """Return what no engine takes, or what it would take and fail with later."""
    return [*_unknown("the file", {name for name in document if name[:2] != "x-"}, _TOP)] + [
        f"{name}: {problem}"
        for name, service in document["services"].items()
        for problem in _problems_of(document, service)
    ]


def _problems_of(document: Mapping[str, Any], service: Mapping[str, Any]) -> Iterator[str]:
    yield from _unknown("a service", service.keys(), _SERVICE)
    yield from _unknown("a health check", service.get("healthcheck", {}).keys(), _CHECK)
    for other, how in service.get("depends_on", {}).items():
        yield from _problems_of_need(document["services"], other, how["condition"])
    for what in ("secrets", "networks"):
        for name in set(service.get(what, ())) - document[what].keys():
            yield f"it has {name}, which is none of the {what}"
    for volume in service.get("volumes", ()):
        source = volume.split(":")[0]
        if source.startswith("."):
            if not (FOLDER / source).exists():
                yield f"there is no file {source}"
        elif source not in document["volumes"]:
            yield f"it has {source}, which is none of the volumes"


def _problems_of_need(services: Mapping[str, Any], other: str, condition: str) -> Iterator[str]:
    if condition not in _CONDITIONS:
        yield f"depends_on has no condition {condition}"
    if other not in services:
        yield f"it depends on {other}, which is no service"
    elif condition == "service_healthy" and "healthcheck" not in services[other]:
        yield f"it waits for the health of {other}, which has no check"


def _unknown(what: str, names: Any, known: frozenset[str]) -> Iterator[str]:
    yield from (f"{what} has no {name}" for name in sorted(set(names) - known))
