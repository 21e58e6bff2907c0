"""Keys at every way to a gateway: commands, the Python client, and a browser that logs in."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from playwright.sync_api import Browser, expect

from kernel.records.access.actions import Grant
from kernel.records.access.keys import new_key as new_access_key
from kernel.records.access.records import AccessDecision
from tests.workers.chromium import in_chromium, running_browser
from tests.workers.cli.command import printed, rotulus
from tests.workers.dashboard.page_in_browser import axe_problems, layout_problems, watched_page
from tests.workers.dashboard.served_gateways import ServedGateway, served_gateway
from workers.client.errors import GatewayError
from workers.client.rotulus import Rotulus
from workers.use_cases.access import AccessChanges, AccessTable

pytestmark = in_chromium

BY_TEST = AccessDecision("person:owner", "for a test")


@dataclass
class Closed:
    """A gateway that takes keys, and its first owner's."""

    served: ServedGateway
    owner: str

    def new_key(self, principal: str, role: str) -> str:
        """Make a key on the loop of the gateway, because a browser has one of its own here."""
        granted = [Grant(principal, role)]
        made = self.served.call(changes_of(self.served).create_key, principal, granted, 1, BY_TEST)
        self.served.call(table_of(self.served).refresh)
        return str(made.key)


def changes_of(served: ServedGateway) -> AccessChanges:
    return AccessChanges(served.door.services.write, served.ledger.host)


def table_of(served: ServedGateway) -> AccessTable:
    assert served.door.services.door is not None
    return served.door.services.door.table


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    folder = tmp_path_factory.mktemp("closed")
    with served_gateway(folder, nothing, access="keys") as served:
        owner = new_access_key(os.urandom)
        assert served.call(changes_of(served).record_first_owner, owner)
        served.call(table_of(served).refresh)
        yield Closed(served, str(owner))


async def nothing(_: ServedGateway) -> None:
    """Furnish nothing."""


@pytest.fixture
def as_owner(closed: Closed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key"
    path.write_text(closed.owner + "\n")
    monkeypatch.setenv("ROTULUS_KEY_FILE", str(path))
    monkeypatch.setenv("ROTULUS_GATEWAY_URL", closed.served.url)


def new_key(principal: str, *roles: str) -> str:
    options = [word for role in roles for word in ("--role", role)]
    key = printed("keys", "create", principal, *options, "--json")["key"]
    assert isinstance(key, str)
    return key


def test_commands_show_the_key_that_the_environment_names(closed, as_owner, monkeypatch):
    who = rotulus("access", "caller")
    assert "person:owner" in who.stdout
    key = new_key("person:olga", "operator")
    listed = rotulus("keys", "list").stdout
    assert "person:olga" in listed
    assert key not in listed
    before = printed("access", "list", "--json")["ec_sequence_number"]
    monkeypatch.setenv("ROTULUS_KEY", key)
    paused = rotulus("queues", "pause", "binding-evaluation", "--reason", "an exchange")
    assert paused.exit_code == 0, paused.output
    denied = rotulus("show", "log", "--gateway", closed.served.url)
    assert denied.exit_code != 0
    refused = rotulus("access", "grant", "person:olga", "owner")
    assert refused.exit_code == 1
    assert "access_denied" in refused.stderr
    monkeypatch.delenv("ROTULUS_KEY")
    turned = printed("keys", "rotate", key.split("_")[1], "--json")
    granted = rotulus("access", "grant", "person:olga", "producer", "--scope", "queue:x")
    assert granted.exit_code == 0, granted.output
    assert rotulus("access", "withdraw", "person:olga", "operator").exit_code == 0
    stood = rotulus("access", "at", before).stdout
    assert "operator" in stood
    assert "queue:x" not in stood
    assert rotulus("keys", "revoke", turned["key_id"]).exit_code == 0
    monkeypatch.setenv("ROTULUS_KEY", turned["key"])
    assert "unauthenticated" in rotulus("queues").stderr


def test_a_key_file_that_cannot_be_read_is_named(closed, as_owner, monkeypatch, tmp_path):
    monkeypatch.setenv("ROTULUS_KEY_FILE", str(tmp_path / "none"))
    result = rotulus("access", "caller")
    assert result.exit_code == 1
    assert "access_key_unreadable" in result.stderr


def test_a_client_shows_the_key_that_the_environment_names(closed, as_owner, monkeypatch):
    key = new_key("service:shop", "producer")

    async def known() -> object:
        async with Rotulus(closed.served.url, give_up_after_s=0) as client:
            return await client.gateway.ask_document("GET", "/v1/access/caller")

    monkeypatch.setenv("ROTULUS_KEY", key)
    assert anyio.run(known)["principal"] == "service:shop"  # type: ignore[index]

    async def refused() -> None:
        async with Rotulus(closed.served.url, give_up_after_s=0) as client:
            await client.gateway.ask_document("GET", "/v1/log")

    with pytest.raises(GatewayError) as raised:
        anyio.run(refused)
    assert raised.value.code == "access_denied"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.mark.parametrize("scripts", [True, False])
def test_a_browser_logs_in_works_and_logs_out(closed, chromium, scripts):
    key = closed.new_key("person:paula", "operator")
    url = closed.served.url
    with watched_page(chromium, url, java_script_enabled=scripts) as (page, problems):
        page.goto(f"{url}/queues/binding-evaluation")
        expect(page).to_have_title("Log in – Rotulus")
        page.get_by_label("Key", exact=True).fill("rot_000000000000_" + "A" * 43)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("no key that stands")
        page.get_by_label("Key", exact=True).fill(key)
        page.get_by_role("button", name="Log in").click()
        # Back at the page that was wanted, with what is the role's own.
        expect(page).to_have_url(f"{url}/queues/binding-evaluation")
        expect(page.get_by_text("Logged in as person:paula (operator)")).to_be_visible()
        places = page.get_by_role("navigation", name="Places")
        expect(places.get_by_role("link", name="Fleet")).to_be_visible()
        expect(places.get_by_role("link", name="Record")).to_have_count(0)
        expect(page.get_by_role("search", name="Everything")).to_have_count(0)
        assert key not in page.content()
        if scripts:
            assert page.evaluate("document.cookie") == ""
            assert axe_problems(page, ()) == []
            assert layout_problems(page) == []
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_title("Log in – Rotulus")
        page.goto(f"{url}/queues")
        expect(page).to_have_title("Log in – Rotulus")
        if scripts:
            assert axe_problems(page, ()) == []
            assert layout_problems(page) == []
        assert problems == []
