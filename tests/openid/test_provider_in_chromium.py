"""A browser that logs in at a real provider, works, and logs out."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from kernel.records.access.actions import Grant
from kernel.records.access.records import AccessDecision, access_record
from tests.npm import needs_npm, npm_packages
from tests.ports import free_ports
from tests.workers.chromium import in_chromium, running_browser
from tests.workers.dashboard.served_gateways import ServedGateway, served_gateway
from workers.use_cases.access import AccessChanges

pytestmark = [in_chromium, needs_npm]
HERE = Path(__file__).parent
SWITCH = re.compile("(Pause|Resume) the queue")


@contextmanager
def running_provider(port: int, redirect: str) -> Iterator[str]:
    """A provider of another site than the gateway's, so that cookies are what they are between."""
    command = ("node", str(HERE / "provider.mjs"), str(port), redirect)
    folder = npm_packages(HERE).parent
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert any("listens" in line for line in process.stdout), "the provider did not start"
        yield f"http://localhost:{port}"
        process.kill()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGateway]:
    ports = free_ports(2)
    redirect = f"http://127.0.0.1:{ports[0]}/login/provider/answer"
    with running_provider(ports[1], redirect) as issuer:
        settings = {
            "port": ports[0],
            "oidc_issuer": issuer,
            "oidc_client_id": "rotulus",
            "oidc_client_secret": "the secret",
            "oidc_redirect_url": redirect,
        }
        folder = tmp_path_factory.mktemp("provider")
        with served_gateway(folder, nothing, access="keys", settings=settings) as gateway:
            yield gateway


async def nothing(_: ServedGateway) -> None:
    """Furnish nothing."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


def grant(served: ServedGateway, principal: str, role: str) -> None:
    changes = AccessChanges(served.door.services.write, served.ledger.host)

    async def granted() -> None:
        decision = AccessDecision("person:owner", "for a test")
        await changes.change_grant(Grant(principal, role), decision, stands=True)
        assert served.door.services.door is not None
        await served.door.services.door.table.refresh()

    served.call(granted)


def log_in(page: Page, name: str) -> None:
    page.get_by_role("link", name="Log in by your provider").click()
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=password]").fill("any")
    page.get_by_role("button", name=re.compile("sign-in", re.IGNORECASE)).click()
    page.get_by_role("button", name=re.compile("continue", re.IGNORECASE)).click()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_browser_logs_in_at_the_provider_works_and_logs_out(served, chromium, scripts):
    grant(served, "group:ops", "operator")
    url = served.url
    with chromium.new_context(java_script_enabled=scripts) as context:
        page = context.new_page()
        page.goto(f"{url}/queues/binding-evaluation")
        expect(page).to_have_title("Log in – Rotulus")
        log_in(page, "paula")
        expect(page).to_have_url(f"{url}/queues/binding-evaluation")
        expect(page.get_by_text("Logged in as person:paula (operator)")).to_be_visible()
        page.get_by_role("button", name=SWITCH).click()
        expect(page.get_by_role("status").first).to_contain_text(re.compile("Paused|Resumed"))
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_title("Log in – Rotulus")
        page.goto(f"{url}/queues")
        expect(page).to_have_title("Log in – Rotulus")


def test_a_session_that_ended_in_the_middle_of_a_form_loses_nothing_that_was_typed(
    served, chromium
):
    grant(served, "group:ops", "operator")
    page_url = f"{served.url}/queues/extraction-transition"
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(page_url)
        log_in(page, "olga")
        expect(page).to_have_url(page_url)
        page.get_by_label("Reason").first.fill("the court's server is away")
        end_sessions(served, "person:olga")
        page.get_by_role("button", name="Pause the queue").click()
        expect(page).to_have_title("Log in – Rotulus")
        # The provider knows who this is still.
        page.get_by_role("link", name="Log in by your provider").click()
        expect(page).to_have_url(page_url)
        expect(page.get_by_label("Reason").first).to_have_value("the court's server is away")
        page.get_by_role("button", name="Pause the queue").click()
        expect(page.get_by_role("status").first).to_contain_text("Paused")
        expect(page.get_by_text("the court's server is away").first).to_be_visible()
        # What went through is not given back once more.
        page.goto(page_url)
        values = [box.input_value() for box in page.get_by_label("Reason").all()]
        assert not any(values)


def end_sessions(served: ServedGateway, principal: str) -> None:
    changes = AccessChanges(served.door.services.write, served.ledger.host)

    async def end() -> None:
        for key in served.ledger.read(access_record).keys:
            if key.principal == principal:
                decision = AccessDecision("person:owner", "for a test")
                await changes.revoke_key(key.key_id, decision)
        assert served.door.services.door is not None
        await served.door.services.door.table.refresh()

    served.call(end)
