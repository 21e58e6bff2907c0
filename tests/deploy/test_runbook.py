"""The commands of the runbook are typed in the state of the alert, as they are written there."""

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.alert_states import RED, SEEN_ELSEWHERE, STATES
from tests.deploy.processes import DEPLOY
from tests.printed_commands import COMMAND, carried_out
from tests.scraped import Scraped
from tests.test_deploy import rules
from tests.workers.cli.command import rotulus
from tests.workers.dashboard.served_gateways import ServedGateway, client_of, served_gateway
from tests.workers.dashboard.trouble import peace

RED_S: Final = 20.0
SECTIONS: Final = dict(
    part.split("\n", 1) for part in (DEPLOY / "runbook.md").read_text().split("\n## ")[1:]
)

SAID: Final[Mapping[str, tuple[str, ...]]] = {
    "RotulusDependencyDown": ("Redis does not answer", "Redis does not answer"),
    "RotulusSessionsCorrupt": ('"belief_events"',),
    "RotulusRecordDamaged": (
        "bytes_changed",
        "verifies: true",
        "Error: range_quarantined",
        "changed: true",
    ),
    "RotulusNoWorkers": ("no worker serves binding-evaluation", "open 1 ="),
    "RotulusShardsUnowned": ("owns 3 of 4 shards",),
    "RotulusQueueLate": ("critical            1", "critical"),
    "RotulusQueuePaused": ("paused at", "", ""),
    "RotulusImplicationsHalted": ("detector motions", ""),
    "RotulusLogDiverged": ("diverged", "verifies: false", "unwitnessed"),
    "RotulusLogNotPublished": ("is not published",),
    "RotulusDeadLettersGrow": ("model: away", ""),
    "RotulusRequestsRefused": ("gateway_full",),
    "RotulusCommitsRolledBack": ("is ready", "record"),
    "RotulusCommitsSlow": ("disk",),
    "RotulusRequestsFail": ("gateway_full",),
    "RotulusItemsFail": ("model: away", "model: away"),
    "RotulusMailRefused": ("redis",),
}
"""By alert: what each command of its section says in that state, in their order."""

CURED: Final = frozenset(
    {"RotulusRecordDamaged", "RotulusQueuePaused", "RotulusImplicationsHalted"}
)
"""Alerts that the commands of their section end; others end once the cause is mended."""


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedGateway]:
    with served_gateway(tmp_path, peace) as gateway:
        monkeypatch.setenv("ROTULUS_GATEWAY_URL", gateway.url)
        monkeypatch.setenv("ROTULUS_DATA_DIR", str(gateway.folder))
        yield gateway


def scraped(served: ServedGateway) -> Scraped:
    with client_of(served) as http:
        return Scraped(http.get("/metrics").text)


def wait_until(served: ServedGateway, alert: str, before: Scraped, *, red: bool) -> None:
    """Wait until the readings are, or are no longer, those of which an alert is made."""
    deadline_s = time.monotonic() + RED_S
    while RED[alert](before, scraped(served)) != red:
        assert time.monotonic() < deadline_s, f"{alert} is not {'red' if red else 'green'}"
        time.sleep(0.1)


def test_every_alert_has_its_state_or_the_test_that_makes_it():
    alerts = {rule["alert"] for rule in rules()}
    assert STATES.keys() == RED.keys() == SAID.keys()
    assert STATES.keys() | SEEN_ELSEWHERE.keys() == alerts
    assert STATES.keys().isdisjoint(SEEN_ELSEWHERE)
    assert all((DEPLOY.parent / test).is_file() for test in SEEN_ELSEWHERE.values())
    assert {alert for alert in alerts if not COMMAND.search(SECTIONS[alert])} == set()


@pytest.mark.parametrize("alert", STATES)
def test_the_commands_of_a_section_say_what_is_the_case(alert: str, served: ServedGateway):
    section, before = SECTIONS[alert], scraped(served)
    commands = [*dict.fromkeys(COMMAND.findall(section))]
    assert len(commands) == len(SAID[alert]), commands
    with STATES[alert](served) as filled:
        wait_until(served, alert, before, red=True)
        for command, said in zip(commands, SAID[alert], strict=True):
            blanks = set(re.findall(r"(?<![\w-])[A-Z][A-Z_:]*(?![\w-])", command))
            words = carried_out(section, command, {name: filled[name] for name in blanks})
            result = rotulus(*words[1:])
            assert result.exit_code in (0, 1), result.output
            assert said in result.output, f"{command}\n{result.output}"
            assert ("Error: " in result.output) == said.startswith("Error: "), result.output
        if alert in CURED:
            wait_until(served, alert, before, red=False)
