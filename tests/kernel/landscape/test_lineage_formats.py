"""A run in the formats of others: OpenLineage's events and W3C PROV, by their own models."""

import json
from collections import Counter

import attr
import openlineage.client.event_v2 as events
import openlineage.client.facet_v2 as facets
import pytest
from openlineage.client import generated
from openlineage.client.serde import Serde
from prov.model import ProvDocument, ProvInvalidation, ProvRecord

from kernel.landscape.errors import LandscapeRefused, RecordDamaged
from kernel.landscape.open_lineage import open_lineage_events
from kernel.landscape.prov_json import prov_document
from kernel.landscape.record_rules import KEYS, TABLES
from kernel.ledger.store.tables import TableQuery
from tests.kernel.landscape.runs import begin, seal, step, whole_run

PRODUCER = "urn:rotulus:1"
ENDS = {"COMPLETE", "FAIL", "ABORT", "RUNNING"}


def exported(ledger, run_id="run-1"):
    lines = ledger.read(lambda view: list(open_lineage_events(view, run_id, producer=PRODUCER)))
    return [json.loads(line) for line in lines]


def proved(ledger, run_id="run-1"):
    content = ledger.read(lambda view: b"".join(prov_document(view, run_id)))
    return json.loads(content), ProvDocument.deserialize(content=content.decode(), format="json")


def by_the_model(event):
    """The event as the official client makes it of the same fields, which it checks."""

    def facet(stated):
        stated = dict(stated)
        url = stated.pop("_schemaURL")
        kind = getattr(facets, url.rpartition("/")[2], None) or _facet_class(url)
        return kind(producer=stated.pop("_producer"), **stated)

    def each(stated):
        return {name: facet(value) for name, value in stated.items()}

    def dataset(kind, stated):
        fields = {
            name: each(value) if name.endswith("acets") else value for name, value in stated.items()
        }
        return kind(**fields)

    return events.RunEvent(
        eventType=events.RunState(event["eventType"]),
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=events.Run(event["run"]["runId"], each(event["run"]["facets"])),
        job=events.Job(
            event["job"]["namespace"], event["job"]["name"], each(event["job"]["facets"])
        ),
        inputs=[dataset(events.InputDataset, each_one) for each_one in event["inputs"]],
        outputs=[dataset(events.OutputDataset, each_one) for each_one in event["outputs"]],
    )


def _facet_class(url):
    name = url.rpartition("/")[2]
    modules = (getattr(generated, module, None) for module in dir(generated))
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def plain(document):
    """A document without what is empty, which the client leaves out or not."""
    if isinstance(document, dict):
        members = {name: plain(value) for name, value in document.items()}
        return {name: value for name, value in members.items() if value not in (None, [], {})}
    return [plain(value) for value in document] if isinstance(document, list) else document


@pytest.fixture
def run(ledger, recorder):
    whole_run(recorder)
    recorder.complete_run("run-1")
    seal(ledger)


@pytest.mark.spec("seed 003, exporter")
def test_every_event_is_one_of_the_official_model(ledger, run):
    for event in exported(ledger):
        made = Serde.to_dict(attr.asdict(by_the_model(event)))
        # The client adds the URLs of schemas itself, so these are compared, too.
        assert plain(made) == plain(event)


def test_each_run_of_a_job_starts_before_it_ends_and_the_whole_says_its_digest(ledger, run):
    kinds: dict[str, list[str]] = {}
    for event in exported(ledger):
        kinds.setdefault(event["run"]["runId"], []).append(event["eventType"])
    for seen in kinds.values():
        assert seen[0] == "START"
        assert len(ENDS & {*seen}) == 1
    last = exported(ledger)[-1]
    tags = {tag["key"]: tag["value"] for tag in last["run"]["facets"]["tags"]["tags"]}
    assert (tags["run_id"], len(tags["run_digest"])) == ("run-1", 64)
    assert (last["eventType"], tags["sealed_by_sequence"]) == ("COMPLETE", "1")


def test_what_goes_along_an_edge_leads_from_the_source_to_the_artifact(ledger, run):
    written, read = Counter(), Counter()
    for event in exported(ledger):
        written.update(dataset["name"].partition(".")[2] for dataset in event["outputs"])
        read.update(dataset["name"].partition(".")[2] for dataset in event["inputs"])
        if event["outputs"] and event["outputs"][0]["name"] == "out.csv":
            size = event["outputs"][0]["outputFacets"]["outputStatistics"]["size"]
            assert (event["eventType"], size) == ("OTHER", 12)
    for label in ("source.continue", "parse.continue", "gate.sure"):
        assert written[label] == read[label] == 1
    failing = [event for event in exported(ledger) if "errorMessage" in event["run"]["facets"]]
    assert [
        "no label" in event["run"]["facets"]["errorMessage"]["message"] for event in failing
    ] == [True]


@pytest.mark.parametrize(
    ("config", "name"), [({"pipeline": "orders", "place": "a:b"}, "orders"), ({"name": "n"}, "n")]
)
def test_runs_of_a_pipeline_are_runs_of_one_job(ledger, recorder, config, name):
    recorder.begin_run(config, run_id="run-1")
    recorder.flush()
    assert {event["job"]["name"] for event in exported(ledger)} == {name}


@pytest.mark.parametrize(
    ("status", "whole", "node"),
    [("failed", "FAIL", "ABORT"), ("interrupted", "ABORT", "ABORT"), (None, "RUNNING", "RUNNING")],
)
def test_a_run_that_did_not_complete_says_so(ledger, recorder, status, whole, node):
    begin(recorder)
    row = recorder.create_row("run-1", "source", 0, {"a": 1})
    token = recorder.create_token("run-1", row["row_id"])
    recorder.begin_node_state("run-1", token["token_id"], "parse", 0, {"a": 1})
    recorder.flush()
    if status:
        recorder.complete_run("run-1", status)
    kinds = [event["eventType"] for event in exported(ledger)]
    assert kinds == ["START", "START", node, whole]


@pytest.mark.spec("seed 003, exporter")
def test_the_prov_document_has_every_record_and_names_nothing_that_is_not_there(ledger, run):
    content, document = proved(ledger)
    named = {
        key: set(content[section])
        for section, key in (("entity", "entity"), ("activity", "activity"), ("agent", "agent"))
    }
    counts = Counter(name.partition("/")[0] for names in named.values() for name in names)
    kinds = {
        "row": "rows",
        "token": "tokens",
        "state": "node_states",
        "call": "calls",
        "operation": "operations",
        "artifact": "artifacts",
        "batch": "batches",
        "node": "nodes",
        "run": "runs",
    }
    for kind, table in kinds.items():
        count = ledger.read(lambda view, table=table: view.tables.count(TableQuery(TABLES[table])))
        assert counts[f"run:{kind}"] == count, table
    everything = set().union(*named.values())
    for section in content.keys() - {"prefix", *named}:
        for relation in content[section].values():
            ends = [
                value
                for name, value in relation.items()
                if name.startswith("prov:") and name != "prov:time"
            ]
            assert set(ends) <= everything, section
    tokens = counts["run:token"]
    assert len(list(document.get_records(ProvInvalidation))) == tokens
    # What was read is written again alike, so nothing of it was misunderstood.
    assert ProvDocument.deserialize(content=document.serialize(), format="json") == document
    assert len(list(document.get_records(ProvRecord))) == sum(
        len(section) for name, section in content.items() if name != "prefix"
    )


def test_ids_of_any_kind_are_escaped(ledger, recorder):
    run_id = 'a run: "1" / é'
    begin(recorder, run_id)
    row = recorder.create_row(run_id, "source", 0, {"a": 1}, row_id="row 1")
    step(recorder, recorder.create_token(run_id, row["row_id"]), "parse", 0, {})
    recorder.flush()
    content, document = proved(ledger, run_id)
    assert content["prefix"] == {"run": "urn:rotulus:run:a%20run%3A%20%221%22%20%2F%20%C3%A9:"}
    assert "run:row/row%201" in content["entity"]
    assert document.get_record("run:row/row%201")
    assert exported(ledger, run_id)


@pytest.mark.parametrize(
    "export",
    [
        lambda view, run_id: list(open_lineage_events(view, run_id, producer=PRODUCER)),
        lambda view, run_id: list(prov_document(view, run_id)),
    ],
)
def test_what_is_not_there_or_damaged_is_not_exported(ledger, run, export):
    with pytest.raises(LandscapeRefused):
        ledger.read(lambda view: export(view, "nobody"))
    with ledger.store.transaction() as tables:
        [state, *_] = tables.scan(TableQuery(TABLES["node_states"]))
        key = ("run-1", state[KEYS["node_states"]])
        tables.update(TABLES["node_states"], key, {"input_hash": "x"})
    with pytest.raises(RecordDamaged, match="input_hash"):
        ledger.read(lambda view: export(view, "run-1"))
