"""A program finds the gateway of the tree that runs on a data folder, and none that has ended."""

import json
import logging
from pathlib import Path

import anyio
import httpx
import pytest

from workers.client import GatewayError, Rotulus
from workers.client.gateway_address import DEFAULT_URL, gateway_address, tree_url
from workers.environment.data_folder import DataFolder

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:18440"


@pytest.fixture
def folder(tmp_path: Path):
    """A data folder whose tree runs."""
    folder = DataFolder(tmp_path / "data")
    with folder.lock():
        folder.write_runtime({"gateway_url": URL, "pids": {}})
        yield folder.path


def test_urls_that_are_given_go_before_everything_else(folder):
    place = gateway_address(
        ("http://a:1", "http://b:2"), folder, {"ROTULUS_GATEWAY_URL": "http://c"}
    )
    assert (place.urls, place.remedy) == (("http://a:1", "http://b:2"), "")


def test_a_folder_that_is_given_goes_before_the_environment(folder):
    assert gateway_address((), folder, {"ROTULUS_GATEWAY_URL": "http://c"}).urls == (URL,)
    assert gateway_address((), str(folder), {}).urls == (URL,)


@pytest.mark.parametrize(
    ("environment", "urls"),
    [
        ({}, (DEFAULT_URL,)),
        ({"ROTULUS_GATEWAY_URL": ""}, (DEFAULT_URL,)),
        (
            {
                "ROTULUS_GATEWAY_URL": "http://a:1",
                "ROTULUS_OTHER_GATEWAY_URLS": "http://b:2, ,http://c:3",
            },
            ("http://a:1", "http://b:2", "http://c:3"),
        ),
    ],
)
def test_the_environment_names_gateways(tmp_path, monkeypatch, environment, urls):
    monkeypatch.chdir(tmp_path)
    assert gateway_address((), None, environment).urls == urls


def test_the_environment_names_a_folder_or_it_is_that_of_the_current_one(folder, monkeypatch):
    assert gateway_address((), None, {"ROTULUS_DATA_DIR": str(folder)}).urls == (URL,)
    named = {"ROTULUS_DATA_DIR": str(folder), "ROTULUS_GATEWAY_URL": "http://a:1"}
    assert gateway_address((), None, named).urls == ("http://a:1",)
    (folder.parent / "rotulus-data").symlink_to(folder)
    monkeypatch.chdir(folder.parent)
    assert gateway_address((), None, {}).urls == (URL,)


def test_a_tree_that_was_killed_is_not_found(tmp_path):
    folder = DataFolder(tmp_path / "data")
    with folder.lock():
        folder.write_runtime({"gateway_url": URL})
        left = folder.runtime_path.read_bytes()
        assert tree_url(folder.path) == URL
    assert tree_url(folder.path) is None
    folder.runtime_path.write_bytes(left)
    folder.runtime_path.chmod(0o600)
    assert tree_url(folder.path) is None, "nobody holds the lock"
    with pytest.raises(
        GatewayError, match=rf"`rotulus up --data-dir {folder.path}` starts"
    ) as none:
        Rotulus(data_dir=folder.path)
    assert none.value.code == "gateway_unreachable"


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_folder_that_others_can_change_leads_nowhere(folder, mode):
    folder.chmod(mode)
    with pytest.raises(GatewayError, match="could lead anywhere") as refused:
        tree_url(folder)
    assert refused.value.code == "data_folder_unsafe"


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{", b'{"gateway_url": 1}', b'{"gateway_url": "file:///x"}', b"[" * 99_999],
)
def test_what_is_no_address_is_none(folder, text):
    (folder / "runtime.json").write_bytes(text)
    assert tree_url(folder) is None


def test_the_address_is_no_secret_and_its_file_is_private(folder):
    path = folder / "runtime.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(path.read_text())) == {"gateway_url", "pids"}


async def test_nobody_there_is_said_at_once_and_in_the_error(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROTULUS_GATEWAY_URL", raising=False)

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    transport = httpx.MockTransport(refuse)
    async with Rotulus(transport=transport, give_up_after_s=0.05) as rotulus:
        for _ in range(2):
            with pytest.raises(
                GatewayError, match="`rotulus dev FILE` or `rotulus up` starts one here"
            ) as away:
                await rotulus.records.queues()
            assert away.value.code == "gateway_unreachable"
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert f"no gateway answers at {DEFAULT_URL}" in warnings[0].getMessage()


async def test_a_call_ends_within_its_limit_whatever_answers(tmp_path):
    async def late(_: httpx.Request) -> httpx.Response:
        await anyio.sleep_forever()
        raise AssertionError

    transport = httpx.MockTransport(late)
    async with Rotulus(URL, transport=transport, call_s_max=0.05, give_up_after_s=0) as rotulus:
        with pytest.raises(GatewayError, match=r"within 0\.05 s"):
            await rotulus.records.queues()
        with pytest.raises(GatewayError, match="no gateway answers"):
            async for _ in rotulus.session("s").submit([{}]):
                pass
