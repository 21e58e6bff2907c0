"""What operators are given to watch with names what there is to watch."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from workers.telemetry.metric_table import GATEWAY, WORKER, Metric
from workers.views.attention_items import KINDS

DEPLOY = Path(__file__).parent.parent / "deploy"
PROMTOOL = shutil.which("promtool")
METRICS = {metric.name: metric for metric in (*GATEWAY, *WORKER)}


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_bytes())
    return document


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    return [rule["expr"] for rule in rules()] + [
        target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]
    ]


def metric_of(series: str) -> Metric:
    """The metric that a series is of; a histogram is seen by three."""
    if series in METRICS:
        assert METRICS[series].kind != "histogram", f"{series} has no series of its own"
        return METRICS[series]
    name, _, part = series.rpartition("_")
    assert part in ("bucket", "sum", "count"), f"{series} is in no table"
    assert METRICS[name].kind == "histogram"
    return METRICS[name]


def row(metric: Metric) -> str:
    labels = ", ".join(metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |"


@pytest.mark.parametrize(("heading", "table"), [("gateway", GATEWAY), ("worker", WORKER)])
def test_the_list_shows_every_metric_and_no_other(heading: str, table: tuple[Metric, ...]):
    written = (DEPLOY / "metrics.md").read_text()
    _, _, after = written.partition(f"## Metrics of a {heading}\n")
    part = after.partition("\n#")[0]
    shown = [line for line in part.splitlines() if line.startswith("| `rotulus_")]
    assert shown == [row(metric) for metric in table]


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_metrics_and_labels_that_there_are(expression: str):
    series = set(re.findall(r"\brotulus_\w+", expression))
    assert series
    known = {label for each in series for label in metric_of(each).labels} | {"instance", "le"}
    grouped = re.findall(r"\bby \(([^)]*)\)", expression)
    assert {label for group in grouped for label in re.split(r",\s*", group)} <= known
    for metric, selectors in re.findall(r"\b(rotulus_\w+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)=", selectors)) <= set(metric_of(metric).labels)


@pytest.mark.parametrize("expression", expressions())
def test_counters_are_seen_as_rates_and_brackets_match(expression: str):
    for series in re.findall(r"\brotulus_\w+", expression):
        if metric_of(series).kind != "gauge":
            place = expression.index(series)
            assert re.search(r"(rate|increase)\($", expression[:place]), series
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)


def test_each_alert_says_how_bad_it_is_and_what_it_is():
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]


def test_each_alert_leads_to_what_the_runbook_says_of_it_and_the_runbook_to_no_other():
    written = (DEPLOY / "runbook.md").read_text()
    assert re.findall(r"^## (\w+)$", written, re.MULTILINE) == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"runbook.md#{rule['alert'].lower()}"


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool, of the system's package prometheus")
@pytest.mark.parametrize("file", ["deploy/prometheus-alerts.yml", "tests/alert_rules.test.yml"])
def test_the_alerts_are_raised_by_what_they_are_about(file: str):
    assert PROMTOOL is not None
    command = [PROMTOOL, "check" if file.startswith("deploy") else "test", "rules", file]
    ran = subprocess.run(command, check=False, cwd=DEPLOY.parent, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("program", ["chromium", "npm"])
def test_ci_installs_a_program_and_fails_without_it(program):
    run = (DEPLOY.parent / ".ci" / "run").read_text()
    assert re.search(rf'packages=".*\b{program}\b.*"', run)
    assert f"{program.upper()}_REQUIRED=1" in run


def test_the_dashboard_shows_every_metric_but_those_only_alerts_need():
    shown = {
        metric_of(series).name
        for panel in dashboard()["panels"]
        for target in panel["targets"]
        for series in re.findall(r"\brotulus_\w+", target["expr"])
    }
    assert METRICS.keys() - shown == {
        "rotulus_build_info",
        "rotulus_shards",
        "rotulus_queue_paused",
        "rotulus_implications_halted",
        "rotulus_ledger_went_back",
        "rotulus_checkpoint_refused",
    }


def test_panels_have_a_place_and_a_number_each():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)


ALERTS_OF_NO_KIND = {
    "RotulusMailboxesFull": "who asks too much of one session is told so by each refusal",
    "RotulusRequestsRefused": "a rate over minutes, which a look at one moment does not see",
    "RotulusRequestsFail": "a rate over minutes, which a look at one moment does not see",
    "RotulusItemsFail": "a rate over minutes; what is given up of them is a kind",
    "RotulusMailRefused": "a count over minutes of what strangers write, and nothing waits for it",
}


def test_every_kind_of_what_needs_somebody_has_its_alerts_or_says_why_not():
    alerts = {rule["alert"] for rule in rules()}
    of_kinds = {alert for kind in KINDS.values() for alert in kind.alerts}
    assert of_kinds | ALERTS_OF_NO_KIND.keys() == alerts
    assert of_kinds.isdisjoint(ALERTS_OF_NO_KIND)
    assert [
        code for code, kind in KINDS.items() if bool(kind.alerts) == bool(kind.why_no_alert)
    ] == []


def test_the_runbook_names_every_kind_where_its_alert_is_or_in_a_row_of_its_own():
    runbook = (DEPLOY / "runbook.md").read_text()
    parts = dict(part.split("\n", 1) for part in runbook.split("\n## ")[1:])
    for code, kind in KINDS.items():
        for alert in kind.alerts:
            assert f"`{code}`" in parts[alert], (code, alert)
        assert f"`{code}`" in runbook, code
