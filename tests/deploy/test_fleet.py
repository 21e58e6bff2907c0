"""The fleet of the compose file starts, serves through the proxy, is measured, and ends."""

import shutil

import pytest

from tests.deploy.compose_file import compose_file, processes
from tests.deploy.compose_fleet import PROGRAMS, in_own_network

MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}"),
]
PORTS = {"gateway": 8440, "worker": 9440}


def test_the_fleet_of_the_compose_file_serves_through_the_proxy_and_ends(tmp_path):
    report = in_own_network(tmp_path)
    names = processes(compose_file())
    assert report["page"]
    assert report["without_key"] == ""
    assert report["ingest"]
    instances = {f"{name}:{PORTS[process.kind]}" for name, process in names.items()}
    assert report["up"] == dict.fromkeys(instances, "1")
    assert report["first_end"] == 0
    assert set(report["ends"].values()) == {0}
    assert report["verify"]
