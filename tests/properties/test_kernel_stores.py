"""Whatever is submitted, sense or nonsense: every store answers alike, and nothing crashes."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kernel.ledger.ledger import Ledger
from kernel.ledger.receipts import purge_expired
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.model.result import RejectedResult, SubmissionResult
from kernel.transaction.kernel import Kernel
from tests.kernel.build import (
    ABSENT,
    HOUR_US,
    abandoned,
    adapt,
    changed,
    create,
    drain,
    effect,
    envelope,
    everything,
    ledger_on,
    link,
    op_id,
    places,
    relink,
    unlink,
)
from tests.kernel.every import every_kind

ID_LENGTH, KEY_LENGTH = 36, 64
"""Of what the builders call an operation; what was spoilt has another length."""

FURNISHED = {
    "a": "VersionedClaim",
    "b": "ConsolidatedUnderstanding",
    "c": "ConsolidatedUnderstanding",
    "d": "Note",
}
IDS = st.sampled_from([*FURNISHED])
NEW_IDS = st.sampled_from(["a", "n1", "n2", "n3"])
EDGES = st.sampled_from(["e1", "e2", "e3"])
KINDS = st.sampled_from(["Note", "VersionedClaim", "ConsolidatedUnderstanding"])
CLASSES = st.sampled_from(["public_open", "work_product_internal", "firewalled", "sealed"])
UNIT = st.sampled_from([0, 1, 0.25, 0.5])
ODD = st.sampled_from(
    [
        *(None, True, 0, -1, 2, 1.5, 1e17, 2**60, float("nan"), float("inf")),
        *("", "a", "5", "\ud800", "a|b", "x" * 600, "sealed", "core", "recalculate_authority"),
        *([], {}, ["a"], {"a": 1}, [[]], [[[[]]]] * 3),
        ABSENT,
    ]
)


@st.composite
def tainted(draw):
    classes = draw(st.lists(CLASSES, max_size=2))
    if not classes:
        return {}
    return {
        "source_visibility_taint": classes,
        "resolved_output_visibility_class": draw(CLASSES),
        "source_refs": draw(st.lists(IDS, max_size=2)),
    }


CREATES = st.builds(
    lambda node, kind, fields, changes: create(node, kind, envelope=changes, **fields),
    NEW_IDS,
    KINDS,
    st.fixed_dictionaries(
        {}, optional={"authority": UNIT, "title": ODD, "visibility_class": CLASSES}
    ).map(lambda fields: {k: v for k, v in fields.items() if v is not ABSENT}),
    tainted(),
)
ADAPTS = st.builds(lambda node, value: adapt(node, authority=value), IDS, UNIT)
LINKS = st.builds(link, EDGES, IDS, IDS, st.sampled_from(["core", "supporting"]))
UNLINKS = st.builds(unlink, EDGES)
MOVES = st.builds(
    lambda edge, source, target: relink(
        effect("edge_remove", edge),
        effect(
            "edge_create",
            edge,
            source_node_id=source,
            target_node_id=target,
            edge_type="t",
            edge_metadata={"essentiality": "core"},
        ),
    ),
    EDGES,
    IDS,
    IDS,
)
VERBS_OF_STATE = {
    "candidate": "corpus_membership_add",
    "confirmed": "corpus_membership_confirm",
    "rejected": "corpus_membership_reject",
}
MEMBERS = st.builds(
    lambda node, state: envelope(
        VERBS_OF_STATE[state],
        [effect("membership_write", node, corpus_id="corpus:test", to_state=state)],
    ),
    IDS,
    st.sampled_from(sorted(VERBS_OF_STATE)),
)
MIXED = st.builds(
    lambda node, view, kind: envelope(
        "retract",
        [
            effect("node_write", node, state="retracted"),
            effect("node_retract", node) | {"effect_id": "second"},
            effect("membership_revoke", node, corpus_id="corpus:test"),
            effect("index_update", node, index_name="i", entry={"n": node}),
            effect(kind, view),
            effect("receipt_only", node=node) | {"receipt_subkind": "access_overlay_override"},
        ],
    ),
    IDS,
    IDS,
    st.sampled_from(["materialized_view_invalidation", "materialized_view_recompute"]),
)
STEPS = every_kind()
COURSE = st.sampled_from(range(len(STEPS))).map(lambda place: STEPS[place])
"""Any step of the course that names every kind, wherever the ledger stands."""

DOCUMENTS = st.one_of(
    CREATES, CREATES, ADAPTS, LINKS, LINKS, UNLINKS, MOVES, MEMBERS, MIXED, COURSE
)


@st.composite
def submissions(draw):
    """An envelope, sometimes with one thing about it spoiled, and who hands it in."""
    document = draw(DOCUMENTS)
    if draw(st.integers(0, 2)) == 0:
        place = draw(st.sampled_from([*places(document)]))
        document = changed(document, {place: draw(ODD)})
    submitter = draw(st.sampled_from(["caller", "caller", "orchestrator"]))
    return document, submitter


class Twins(RuleBasedStateMachine):
    """One ledger in memory and one in a file, told the same things at the same times."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "ledger.db"
        self.reopen = lambda: SqliteStore(path)
        self.kernel = Kernel(idempotency_window_hours=1)
        self.twins = [ledger_on(store) for store in (MemoryStore(), self.reopen())]
        self.numbers = 0
        self.submit_a_group([(create(*item), "caller") for item in FURNISHED.items()], repeat=False)
        self.submit_a_group([(link("e1", "a", "b"), "caller")], repeat=True)

    def name(self, document):
        """Give an operation its own id and key; the builders' counter outlives one course."""
        self.numbers += 1
        if len(str(document.get("operation_id"))) == ID_LENGTH:
            document = document | {"operation_id": op_id(str(self.numbers))}
        if len(str(document.get("idempotency_key"))) == KEY_LENGTH:
            document = document | {"idempotency_key": f"key:{self.numbers}"}
        return document

    def submit(self, ledger, batch):
        with ledger.transaction() as transaction:
            return [self.kernel.submit(transaction, *batch_unit) for batch_unit in batch]

    @rule(batch=st.lists(submissions(), min_size=1, max_size=4), repeat=st.booleans())
    def submit_a_group(self, batch, repeat):
        batch = [(self.name(document), submitter) for document, submitter in batch]
        if repeat:
            batch += batch[:1]
        before = len(self.logged())
        in_memory, other = (self.submit(ledger, batch) for ledger, _ in self.twins)
        assert [result.document() for result in in_memory] == [
            result.document() for result in other
        ]
        accepted = [
            result
            for result in in_memory
            if isinstance(result, SubmissionResult) and not result.duplicate
        ]
        assert all(isinstance(result, SubmissionResult | RejectedResult) for result in in_memory)
        # V12 may follow an operation with a row of the kernel's own, what contradicts what.
        assert [result.operation_id for result in accepted] == [
            name for name in self.logged()[before:] if not name.startswith("contradiction:")
        ]
        if repeat and isinstance(in_memory[0], SubmissionResult):
            assert in_memory[-1] == in_memory[0]

    @rule(batch=st.lists(submissions(), min_size=1, max_size=3))
    def submit_and_abandon(self, batch):
        batch = [(self.name(document), submitter) for document, submitter in batch]
        for ledger, _ in self.twins:
            before = everything(ledger)
            with abandoned(ledger.transaction()) as transaction:
                for batch_unit in batch:
                    self.kernel.submit(transaction, *batch_unit)
            assert everything(ledger) == before

    @rule(start=st.sampled_from(range(len(STEPS))), steps=st.integers(1, 5))
    def walk_the_course(self, start, steps):
        """Take steps of the course in their order, so that some find what they need."""
        course = STEPS[start : start + steps]
        self.submit_a_group([(document, "orchestrator") for document in course], repeat=False)

    @rule(hours=st.sampled_from([-1, 0, 1, 25]))
    def let_time_pass(self, hours):
        for _, fake in self.twins:
            fake.time_us += hours * HOUR_US

    @rule()
    def purge(self):
        purged = []
        for ledger, _ in self.twins:
            with ledger.transaction() as transaction:
                purged.append(purge_expired(transaction))
        assert purged[0] == purged[1]

    @rule()
    def recompute_everything(self):
        self.numbers += 1
        in_memory, other = (drain(ledger, f"drain:{self.numbers}") for ledger, _ in self.twins)
        assert in_memory == other

    @rule()
    def open_the_file_again(self):
        ledger, fake = self.twins[1]
        ledger.close()
        self.twins[1] = (Ledger.create(self.reopen(), fake.host), fake)

    def logged(self):
        """Return the operations on the log, in their order."""
        rows = everything(self.twins[0][0])["kernel_event_log"]
        return [row["operation_id"] for row in rows]

    @invariant()
    def the_twins_hold_the_same_rows(self):
        in_memory, other = (everything(ledger) for ledger, _ in self.twins)
        for table, rows in in_memory.items():
            assert rows == other[table], table

    @invariant()
    def the_sequence_has_no_gap(self):
        rows = everything(self.twins[0][0])
        sequences = [row["ec_sequence_number"] for row in rows["kernel_event_log"]]
        assert sequences == list(range(1, len(sequences) + 1))
        assert rows["chain_head"][0]["ec_sequence_number"] == len(sequences)

    def teardown(self):
        if hasattr(self, "twins"):
            self.twins[1][0].close()
            self.folder.cleanup()


TestTwins = pytest.mark.spec("K5")(Twins.TestCase)
TestTwins.settings = settings(max_examples=settings().max_examples // 2, stateful_step_count=15)
