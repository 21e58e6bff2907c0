"""What the shapes of envelopes leave out changes no refusal and no byte of the record."""

import contextlib
import copy
from itertools import cycle
from typing import get_args
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.commit.units import EnvelopeUnit, IntentUnit
from actors.errors import IntentInvalid
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.model.envelope import Actor, Reversibility
from kernel.transaction.checks import shapes
from kernel.transaction.checks.check import Refusal
from kernel.transaction.checks.order import CHECKS
from kernel.transaction.checks.schema import parse
from kernel.transaction.kernel import Kernel
from tests.actors.harness import bench_on, dump
from tests.actors.intents import claim, source, understanding
from tests.actors.orchestrator.test_orchestrator import EVERY_KIND
from tests.kernel.build import ABSENT, changed, informed, ledger_on, op_id, overlay
from tests.kernel.reports import artifact
from tests.properties.course import COURSE, KERNEL, renamed, standing_at
from tests.properties.test_capacity import SwitchedLeases
from tests.properties.test_kernel_stores import submissions
from tests.properties.test_malformed import spoilt

FURNISHED = [
    *(source("src-1"), source("src-2", visibility_class="sealed")),
    understanding("cu-1", "src-1"),
    *(claim("cl-1", "src-1", understanding_id="cu-1"), claim("cl-2", "src-1")),
    artifact("out"),
]

STEPS = st.one_of(
    st.sampled_from([*EVERY_KIND]),
    st.sampled_from([*EVERY_KIND]),
    submissions(),
    st.builds(
        lambda restriction, target: (overlay("o", restriction, "document", target), "orchestrator"),
        st.sampled_from(["blocked", "none"]),
        st.sampled_from(["src-1", "cu-1", "cl-1"]),
    ),
    st.booleans(),
)
"""An intent, an envelope of somebody's, an overlay, or whether the leases can be read."""


def generally(_):
    return CHECKS


def take(step, ledger, kernel, leases, actor):
    """Do one step as a unit of a batch, and return what its author learns."""
    if isinstance(step, bool):
        leases.known = step
        return None
    try:
        intent = EVERY_KIND[step](ledger) if isinstance(step, str) else step
    except (IndexError, ValueError, TypeError, AttributeError) as error:
        return repr(error)  # the ledger lacks what the intent is made of
    with bench_on(ledger, kernel) as context:
        if not isinstance(intent, tuple):
            try:
                return IntentUnit(intent, "s-1", actor).run(context)
            except IntentInvalid as error:
                return repr(error)
        document, submitter = copy.deepcopy(intent)
        document = informed(context.transaction, document)
        if submitter == "caller":
            return EnvelopeUnit(document, "s-1").run(context)
        return kernel.submit(context.transaction, document, submitter)


def recorded(store, steps, actor):
    """Return every row that the steps lead to, and their results."""
    ledger, _ = ledger_on(store)
    leases = SwitchedLeases()
    kernel = Kernel(capacity=leases)
    furnished = [(step, "orchestrator") if isinstance(step, dict) else step for step in FURNISHED]
    results = [take(step, ledger, kernel, leases, actor) for step in [*furnished, *steps]]
    rows = {name: sorted(table, key=repr) for name, table in dump(ledger).items()}
    return rows, results


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def new_store(request, tmp_path):
    """A function that opens an empty store, twice as often as there are examples."""
    if request.param == "memory":
        return MemoryStore
    if request.param == "sqlite":

        def new_file():
            path = tmp_path / "ledger.db"
            for name in (path, path.with_suffix(".db-wal"), path.with_suffix(".db-shm")):
                name.unlink(missing_ok=True)
            return SqliteStore(path)

        return new_file
    url, server = request.getfixturevalue("postgres_url"), request.getfixturevalue("postgres")

    def new_database():
        from kernel.ledger.postgres.store import PostgresStore  # noqa: PLC0415 - needs the driver

        server.empty(url)
        return PostgresStore(url)

    return new_database


def both_ways(new_store, steps, actor):
    """Return what the steps come to with the table of shapes, and without it."""
    outcomes = []
    for judged in (shapes.remaining_checks, generally):
        checks_left = patch("kernel.transaction.kernel.remaining_checks", judged)
        with contextlib.closing(new_store()) as store, checks_left:
            outcomes.append(recorded(store, copy.deepcopy(steps), actor))
    return outcomes


@pytest.mark.slow
@pytest.mark.spec("K4")
@settings(
    max_examples=max(5, settings().max_examples // 10),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(STEPS, max_size=8), actor=st.sampled_from(["user", "system"]))
def test_the_record_is_byte_for_byte_that_of_every_check(new_store, steps, actor):
    kept, general = both_ways(new_store, steps, actor)
    assert kept == general


@pytest.mark.spec("K4")
def test_every_kind_of_intent_is_recorded_as_with_every_check(new_store):
    kept, general = both_ways(new_store, [*EVERY_KIND, *EVERY_KIND], "system")
    assert kept == general


TEXTS = ("", "ConsolidatedUnderstanding", "AccessOverlay", "ShareTokenPolicy", "sealed", "active")
CHANGES = [
    *(
        (f"payload.{name}", value)
        for name in sorted(shapes.TELLING_FIELDS)
        for value in (*TEXTS, "nonsense", None, 1, [], ["n"], {"source_ref": "n"}, ABSENT)
    ),
    *(("effect_kind", kind) for kind in ("node_write", "receipt_only", "membership_revoke")),
    *(("reversibility", value) for value in (*get_args(Reversibility), "nonsense", "")),
    *(
        (name, value)
        for name in ("inverse_operation_kind", "compensating_operation_kind")
        for value in ("node_write", "node_retract", "nonsense", "", ABSENT)
    ),
    *(("external_effect_descriptor", value) for value in ("outside", "", " ", ABSENT)),
    *(("target_ref", value) for value in ("n", "nobody", "causal-node:x", ABSENT)),
    *(("receipt_subkind", value) for value in ("access_overlay_override", "nonsense", ABSENT)),
    *(("effect_id", value) for value in ("node_write:n", "other")),
]
"""Changes of an effect, each by itself."""

ENVELOPE_CHANGES = [
    *(("actor", actor) for actor in (*get_args(Actor), "specialist", "User", "")),
    *(("actor_session_kind", kind) for kind in ("share_link", "other")),
    *(("epoch_id", "nowhere"), ("compensates_operation_id", "nobody")),
    *(("source_refs", refs) for refs in (["n"], ["nobody"])),
    *(("read_set_refs", refs) for refs in (["n"], ["nobody"])),
    *(("source_visibility_taint", classes) for classes in (["sealed"], ["nonsense"])),
    *(("resolved_output_visibility_class", name) for name in ("sealed", "nonsense", "")),
    *(("causal_parent_operation_ids", [name]) for name in ("nobody", op_id("op-1"))),
    *(("semantic_intent", verb) for verb in ("create", "restore", "epoch_open", "nonsense")),
    *(("adjudicates_receipt_ids", ["nobody"]), ("recorded_model_outputs", [])),
]


def passed_by(transaction, document, submitter):
    """Return the checks that the shape of an envelope leaves out, each of which is made here."""
    parsed = parse(document)
    if isinstance(parsed, Refusal):
        return []
    submission = KERNEL.submission_of(transaction, parsed, submitter)
    left = shapes.remaining_checks(submission)
    out = [(name, check) for name, check in CHECKS if (name, check) not in left]
    for name, check in out:
        assert check(submission) is None, (name, check, document)
    return out


@pytest.mark.slow
@pytest.mark.spec("K4")
@pytest.mark.parametrize("place", range(len(COURSE)))
def test_no_change_of_an_envelope_is_passed_by_a_check_that_refuses_it(place):
    document = renamed(COURSE[place])
    effects = range(len(document["primitive_effects"]))
    paths = [(f"primitive_effects.{n}.{name}", value) for n in effects for name, value in CHANGES]
    out = 0
    # Each change is of one of them, and at the next place of the other.
    submitters = cycle(["orchestrator", "caller"] if place % 2 else ["caller", "orchestrator"])
    with standing_at(place) as transaction:
        document = informed(transaction, document)
        for (path, value), submitter in zip([*paths, *ENVELOPE_CHANGES], submitters, strict=False):
            try:
                spoiled = changed(document, {path: value})
            except KeyError:
                continue  # there is nothing to take out
            out += len(passed_by(transaction, spoiled, submitter))
    assert out > 0


@pytest.mark.spec("K4")
@given(data=st.data(), place=st.integers(0, len(COURSE) - 1))
def test_a_check_that_a_shape_leaves_out_refuses_nothing(data, place):
    document = renamed(COURSE[place])
    if data.draw(st.booleans()):
        document = data.draw(spoilt(document))
    submitter = data.draw(st.sampled_from(["orchestrator", "caller"]))
    with standing_at(data.draw(st.sampled_from([place, len(COURSE)]))) as transaction:
        document = informed(transaction, document)
        # What was found at first is kept then.
        first = passed_by(transaction, document, submitter)
        assert passed_by(transaction, document, submitter) == first


def test_the_table_is_bounded(monkeypatch):
    monkeypatch.setattr(shapes, "SHAPES_MAX", 3)
    monkeypatch.setattr(shapes, "KEPT", {})
    for place in range(len(COURSE)):
        with standing_at(place) as transaction:
            parsed = parse(informed(transaction, renamed(COURSE[place])))
            shapes.remaining_checks(KERNEL.submission_of(transaction, parsed, "caller"))
            assert len(shapes.KEPT) <= 3
