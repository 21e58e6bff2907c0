"""The compose file is held against the product, and against itself."""

import copy
import json
import re
import shutil
import stat
import subprocess

import pytest
import yaml

from tests.deploy.compose_file import FOLDER, compose_file, problems_in, processes
from tests.deploy.processes import DEPLOY, SECRETS, changed, problems_of, settings_of

PROCESSES = processes(compose_file())


def test_there_are_two_gateways_and_two_workers():
    assert (
        sorted(process.kind for process in PROCESSES.values()) == ["gateway"] * 2 + ["worker"] * 2
    )


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_has_the_settings_that_it_needs_and_no_others(name, tmp_path):
    assert problems_of(PROCESSES[name], tmp_path) == []


@pytest.mark.parametrize("name", ["gateway-1", "worker-1"])
def test_what_is_wrong_with_a_process_is_said(name, tmp_path):
    for problem, process in changed(PROCESSES[name]):
        assert problem in "; ".join(problems_of(process, tmp_path))


def test_the_file_refers_to_nothing_that_is_not_there():
    assert problems_in(compose_file()) == []


@pytest.mark.parametrize(
    ("service", "key", "value", "problem"),
    [
        ("caddy", "depends_on", {"nobody": {"condition": "service_started"}}, "no service"),
        ("caddy", "depends_on", {"prometheus": {"condition": "service_healthy"}}, "no check"),
        ("caddy", "depends_on", {"grafana": {"condition": "healthy"}}, "no condition"),
        ("caddy", "volume", [], "a service has no volume"),
        ("caddy", "volumes", ["./nothing:/etc"], "no file"),
        ("caddy", "volumes", ["nothing:/etc"], "none of the volumes"),
        ("postgres", "secrets", ["nothing"], "none of the secrets"),
        ("postgres", "networks", ["nothing"], "none of the networks"),
        ("postgres", "healthcheck", {"tset": []}, "a health check has no tset"),
    ],
)
def test_what_refers_to_nothing_is_said(service, key, value, problem):
    document = copy.deepcopy(compose_file())
    document["services"][service][key] = value
    assert problem in "; ".join(problems_in(document))


def test_a_gateway_answers_to_the_names_by_which_it_is_called(tmp_path):
    for name, process in PROCESSES.items():
        assert name in settings_of(process, tmp_path).host_names
    site = re.search(r"\{\$ROTULUS_SITE:([^}]*)\}", (FOLDER / "Caddyfile").read_text())
    assert site is not None
    assert site[1] in settings_of(PROCESSES["gateway-1"], tmp_path).host_names


def test_the_proxy_passes_on_the_path_at_which_gateways_are_and_asks_whether_they_are_ready(
    tmp_path,
):
    text = (FOLDER / "Caddyfile").read_text()
    prefix = settings_of(PROCESSES["gateway-1"], tmp_path).path_prefix
    assert f"handle {prefix}*" in text
    [upstreams] = re.findall(r"reverse_proxy (gateway.*) \{", text)
    gateways = [name for name, process in PROCESSES.items() if process.kind == "gateway"]
    assert upstreams.split() == [f"{name}:8440" for name in gateways]
    assert "health_uri /readyz" in text


def test_prometheus_asks_every_process_and_has_our_rules():
    document = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    [job] = document["scrape_configs"]
    targets = [each for group in job["static_configs"] for each in group["targets"]]
    assert [target.partition(":")[0] for target in targets] == list(PROCESSES)
    mounts = compose_file()["services"]["prometheus"]["volumes"]
    [rules] = document["rule_files"]
    assert any(mount.startswith(f"../{rules}:/etc/prometheus/{rules}") for mount in mounts)


def test_every_process_runs_the_image_that_is_built_beside_it():
    for name in PROCESSES:
        build = compose_file()["services"][name]["build"]
        assert (FOLDER / build["context"] / build["dockerfile"]).is_file()


def test_grafana_finds_our_board_and_its_source():
    mounts = dict(
        mount.split(":")[:2] for mount in compose_file()["services"]["grafana"]["volumes"]
    )
    [provider] = yaml.safe_load((FOLDER / "grafana/dashboards.yaml").read_text())["providers"]
    assert mounts["../grafana-dashboard.json"].startswith(provider["options"]["path"])
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_bytes())
    [variable] = board["templating"]["list"]
    [source] = yaml.safe_load((FOLDER / "grafana/datasources.yaml").read_text())["datasources"]
    assert source["type"] == variable["query"] == "prometheus"
    assert source["url"] == "http://prometheus:9090"


def test_the_secrets_are_made_once_and_are_what_the_processes_take(tmp_path):
    shutil.copytree(FOLDER, tmp_path / "compose")
    shutil.copy(DEPLOY / "redis.acl", tmp_path)
    script, folder = tmp_path / "compose" / "secrets.sh", tmp_path / "compose" / "secrets"
    subprocess.run([script], check=True, capture_output=True)
    made = {path.name: path.read_text() for path in folder.iterdir()}
    assert {*compose_file()["secrets"]} <= made.keys()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert SECRETS.keys() <= made.keys()
    assert made["postgres_password"] in made["ROTULUS_DATABASE_URL"]
    assert f">{made['valkey_password']} " in made["valkey_acl"]
    assert len({*made.values()}) == len(made)
    subprocess.run([script], check=True, capture_output=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == made
