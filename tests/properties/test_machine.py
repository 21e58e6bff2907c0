"""Whatever is done to a record, in whatever order, every store holds the same and it verifies.

The steps are taken on a ledger in memory and on one in a file, whose hosts agree on time and
randomness: after each step every table and every answer has to be the same.
"""

import copy
import itertools
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kernel.audit.adjudications import adjudications
from kernel.audit.operations import AuditFilter, find_operations
from kernel.authority.requests import AUTHORITY_QUEUE, ready_items
from kernel.ledger import schema
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.ledger.store.tables import TableQuery
from kernel.ledger.supersession import is_lite, position_of
from kernel.migration.job import migrate
from kernel.migration.review_items import discard
from kernel.model.receipt import MIGRATION_KIND
from kernel.records.conflicts.adjudications import resolution_of
from kernel.replay.replay_receipts import replay_operation, replay_range
from kernel.rollback.confirmation import Confirmable, Confirmations
from kernel.rollback.execute import rollback_epoch, rollback_operation
from kernel.rollback.plan import plan_epoch
from kernel.rollback.rebuild import prepare_rebuild, rebuild
from kernel.simulate.operation import Simulation, simulate_operation
from kernel.transaction.kernel import Kernel
from kernel.values.errors import KernelError
from kernel.values.model_registry import ActiveModels
from kernel.verify import verify
from tests.kernel.build import (
    FakeHost,
    adapt,
    create,
    effect,
    envelope,
    everything,
    informed,
    link,
    op_id,
    recompute,
    relink,
    unlink,
)
from tests.kernel.every import HASH, every_kind, own, states
from tests.kernel.lites import lite, take
from tests.kernel.simulations import NOTHING_FORBIDDEN, PROFILE
from tests.properties.course import state_of

KEYS = Confirmations({"user": b"u" * 32, "architect": b"a" * 32})
KERNEL = Kernel()
IN_USE = ActiveModels({"m-1": "m-1"})
REVIEW = "envelope_conflict_user_review_required"
STRATEGIES = ("record_only", "blocked_on_fingerprint_mismatch")

NODES = st.sampled_from(["a", "b", "c", "n", "m"])
EDGES = st.sampled_from(["e1", "e2", "edge"])
KINDS = st.sampled_from(["Note", "VersionedClaim", "ConsolidatedUnderstanding"])
EPOCHS = st.sampled_from(["e-1", "e-2"])
VALUES = st.sampled_from(["x", "y", 0, 0.5, 1e21, None, ["x"], {"é": {}}])
FIELDS = st.sampled_from(["title", "reply_id", "valid_from"])
REFS = st.sampled_from([["x"], ["x", "y"], ["y"]])
WRITES = st.one_of(
    st.dictionaries(FIELDS, VALUES, min_size=1),
    st.builds(lambda refs: {"cites_refs": refs}, REFS),
    st.builds(lambda refs: {"source_refs": refs}, REFS),
)
DAMAGED = st.sampled_from([str(table.name) for table in schema.STATE_TABLES if "record" in table.c])


def edited(node_id, fields):
    return adapt(node_id, **fields)


def joined(node_id, corpus_id, state):
    verbs = {"candidate": "add", "confirmed": "confirm", "rejected": "reject"}
    step = effect("membership_write", node_id, corpus_id=corpus_id, to_state=state)
    return envelope(f"corpus_membership_{verbs[state]}", [step])


def emitted(name):
    return own("materialization_emit", name, materialized_path=f"a/{name}.pdf", content_hash=HASH)


DOCUMENTS = st.one_of(
    st.builds(create, NODES, KINDS),
    st.builds(edited, NODES, WRITES),
    st.builds(lambda value: adapt("a", authority=value), st.sampled_from([0, 0.5, 1])),
    st.builds(link, EDGES, NODES, NODES, st.sampled_from(["core", "supporting"])),
    st.builds(unlink, EDGES),
    st.builds(lambda edge: relink(effect("edge_reclassify", edge, edge_type="u")), EDGES),
    st.builds(joined, NODES, st.just("c"), st.sampled_from(["candidate", "confirmed", "rejected"])),
    st.builds(lambda node: own("quarantine", node, quarantine_reason="doubt"), NODES),
    st.builds(emitted, st.sampled_from(["mat", "tam"])),
)


def answer_of(answer):
    """What was answered, in a form that compares."""
    if isinstance(answer, tuple | list):
        return [answer_of(part) for part in answer]
    if hasattr(answer, "document"):
        return answer.document()
    return answer.model_dump() if hasattr(answer, "model_dump") else answer


def place_of(row):
    return row["ec_sequence_number"]


class Machine(RuleBasedStateMachine):
    """One history, on every store."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        stores = [MemoryStore(), SqliteStore(Path(self.folder.name) / "ledger.db")]
        self.hosts = [FakeHost() for _ in stores]
        self.ledgers = [
            Ledger.create(store, fake.host) for store, fake in zip(stores, self.hosts, strict=True)
        ]
        self.course = every_kind()
        self.numbers = itertools.count(1)
        self.sent = []
        self.ended = []
        self.lines = []
        self.settled = set()
        for document in (
            create("a", "VersionedClaim", authority=0.5),
            create("b", "ConsolidatedUnderstanding"),
            create("c", "ConsolidatedUnderstanding"),
            link("e1", "a", "b"),
            link("e2", "b", "c"),
        ):
            self.send(self.named(document))

    # What every step is made of

    def both(self, action):
        """Do it on each ledger in a transaction of its own, and compare."""
        answers = []
        for ledger in self.ledgers:
            try:
                with ledger.transaction() as transaction:
                    answers.append(answer_of(action(transaction)))
            except KernelError as error:
                answers.append([error.code, str(error), getattr(error, "details", {})])
        assert answers[0] == answers[1]
        self.compare()
        return answers[0]

    def compare(self):
        first, second = (everything(ledger) for ledger in self.ledgers)
        assert first == second

    def named(self, document, **changes):
        name = f"o:{next(self.numbers)}"
        policy = {"policy_generation_id": self.look(lambda view: view.policy_generation_id())}
        own = {"operation_id": op_id(name), "idempotency_key": name}
        return document | policy | own | changes

    def submit(self, transaction, document, submitter="orchestrator"):
        return KERNEL.submit(transaction, copy.deepcopy(document), submitter)

    def send(self, document, submitter="orchestrator", *, seen=True):
        if seen:
            document = self.look(lambda view: informed(view, copy.deepcopy(document)))
        answer = self.both(lambda transaction: self.submit(transaction, document, submitter))
        self.sent.append((document, submitter, answer))
        return answer

    def look(self, question):
        with self.ledgers[0].view() as view:
            return question(view)

    def rows(self):
        return self.look(lambda view: view.log_rows(limit=1000))

    def on_log(self):
        """Every operation once, at its place."""
        return [row["operation_id"] for row in self.rows() if position_of(row) == place_of(row)]

    def waiting(self):
        """Operations that came as lite envelopes and have not been migrated."""
        last = {row["operation_id"]: row for row in self.rows()}
        return {name for name, row in last.items() if is_lite(row)}

    # Steps

    @rule(count=st.integers(1, 12))
    def the_course_goes_on(self, count):
        for _ in range(count):
            if self.course:
                self.send(self.named(self.course.pop(0)), seen=False)

    @rule(
        document=DOCUMENTS,
        seen=st.booleans(),
        submitter=st.sampled_from(["caller", "orchestrator"]),
    )
    def somebody_writes(self, document, seen, submitter):
        self.send(self.named(document), submitter, seen=seen)

    @rule(document=DOCUMENTS, epoch=EPOCHS)
    def somebody_writes_in_an_epoch(self, document, epoch):
        self.send(self.named(document, epoch_id=epoch))

    @rule(epoch=EPOCHS)
    def an_epoch_begins(self, epoch):
        self.send(self.named(states("epoch_open", "epoch_opened"), epoch_id=epoch))

    @rule(epoch=EPOCHS)
    def an_epoch_ends(self, epoch):
        self.send(self.named(states("epoch_close", "epoch_closed"), epoch_id=epoch))

    @rule(documents=st.lists(DOCUMENTS, max_size=4))
    def an_epoch_goes_by(self, documents):
        epoch = f"epoch:{next(self.numbers)}"
        self.send(self.named(states("epoch_open", "epoch_opened"), epoch_id=epoch))
        for document in documents:
            self.send(self.named(document, epoch_id=epoch))
        self.send(self.named(states("epoch_close", "epoch_closed"), epoch_id=epoch))
        self.ended.append(epoch)

    @rule(node=NODES, first=WRITES, other=WRITES)
    def two_write_who_do_not_know_of_each_other(self, node, first, other):
        for fields in (first, other):
            self.send(self.named(edited(node, fields)), seen=False)

    @rule(data=st.data())
    def the_same_is_sent_again(self, data):
        document, submitter, before = data.draw(st.sampled_from(self.sent))
        answer = self.both(lambda transaction: self.submit(transaction, document, submitter))
        if "ec_sequence_number" in before:
            assert answer == before

    @rule(data=st.data())
    def an_operation_is_undone_or_brought_back(self, data):
        name = data.draw(st.sampled_from(self.on_log()))
        self.both(lambda transaction: rollback_operation(KERNEL, transaction, name))

    @rule(data=st.data(), confirmed=st.booleans())
    def an_epoch_is_undone(self, data, confirmed):
        name = data.draw(st.sampled_from([*self.ended, "e-1", *self.on_log()]))

        def undo(transaction):
            token = None
            if confirmed:
                what = Confirmable(2, name, plan_epoch(transaction, name).digest)
                token = self.word(transaction, "user", what)
            words = {"confirmations": KEYS, "user_confirmation_token": token}
            return rollback_epoch(KERNEL, transaction, name, **words)

        self.both(undo)

    def word(self, transaction, role, what):
        now_us = transaction.host.now_us()
        return KEYS.issue(role, what, confirmation_id=transaction.host.new_id(), now_us=now_us)

    @rule(damaged=st.none() | DAMAGED, data=st.data())
    def the_state_is_built_again(self, damaged, data):
        before = self.states()
        if damaged:
            self.both(lambda transaction: self.damage(transaction, damaged))
        checkpoint = data.draw(st.integers(0, len(self.rows())))

        def build(transaction):
            with closing(prepare_rebuild(KERNEL, transaction, checkpoint)) as prepared:
                what = Confirmable(3, prepared.plan.scope, prepared.plan.digest)
                word = {"architect_confirmation_token": self.word(transaction, "architect", what)}
                rest = {"confirmations": KEYS, "archive": [].append}
                return rebuild(KERNEL, transaction, prepared, **word, **rest)

        assert self.both(build)["result"] == "tier_3_rebuild_applied"
        assert self.states() == before

    def states(self):
        states = []
        for ledger in self.ledgers:
            with ledger.view() as view:
                states.append(state_of(view))
        return states

    def damage(self, transaction, store):
        [table] = [table_ for table_ in schema.STATE_TABLES if table_.name == store]
        for row in transaction.tables.scan(TableQuery(table))[:1]:
            transaction.tables.put(table, row | {"record": b"{}"})

    @rule(data=st.data(), strategy=st.sampled_from(STRATEGIES))
    def an_operation_is_replayed(self, data, strategy):
        name = data.draw(st.sampled_from(self.on_log()))
        answer = self.both(
            lambda transaction: replay_operation(transaction, name, strategy, IN_USE)
        )
        assert answer["output_reproduced"] == (name not in self.waiting())

    @rule(data=st.data(), strategy=st.sampled_from(STRATEGIES))
    def a_range_is_replayed(self, data, strategy):
        last = data.draw(st.integers(1, len(self.rows())))
        first = data.draw(st.integers(1, last))
        answers = self.both(
            lambda transaction: replay_range(transaction, first, last, strategy, IN_USE)
        )
        rows = [row for row in self.rows() if first <= place_of(row) == position_of(row) <= last]
        reproduced = {
            answer["original_operation_id"]: answer["output_reproduced"] for answer in answers
        }
        waiting = self.waiting()
        assert len(answers) == len(rows)
        assert reproduced == {
            row["operation_id"]: row["operation_id"] not in waiting for row in rows
        }

    @rule(documents=st.lists(DOCUMENTS, min_size=1, max_size=4), data=st.data())
    def a_log_of_version_1_5_is_taken(self, documents, data):
        lines = []
        for document in documents:
            gone = data.draw(st.sampled_from([None, None, None, "semantic_intent"]))
            line = lite(self.named(document), **({gone: None} if gone else {}))
            if self.lines and data.draw(st.booleans()):
                line["causal_parent_operation_ids"] = [self.lines[-1]["operation_id"]]
            lines.append(line)
            self.lines.append(line)
        again = data.draw(st.booleans())
        before = self.states()
        for ledger in self.ledgers:
            assert take(ledger, *(self.lines if again else lines)).taken == len(lines)
        self.compare()
        assert self.states() == before

    @rule()
    def what_was_taken_is_migrated(self):
        first, second = (migrate(KERNEL, ledger) for ledger in self.ledgers)
        assert first == second
        self.compare()
        held = self.reviews()
        assert (first.held, first.left) == (len(held), 0)
        assert first.complete == (not self.waiting() - self.settled)
        for line in self.lines:
            now = self.look(lambda view: view.envelope(line["operation_id"]))  # noqa: B023
            kept = ("operation_id", "idempotency_key", "causal_parent_operation_ids")
            assert [now[name] for name in kept] == [line[name] for name in kept]

    @precondition(lambda self: self.reviews())
    @rule(data=st.data(), document=st.none() | DOCUMENTS)
    def what_was_held_is_settled(self, data, document):
        item = data.draw(st.sampled_from(self.reviews()))
        if document is None:
            self.both(lambda transaction: discard(KERNEL, transaction, item["receipt_id"], "why"))
        else:
            self.send(self.named(document, adjudicates_receipt_ids=[item["receipt_id"]]))
        if item not in self.reviews():
            self.settled.add(item["operation_id"])

    def reviews(self):
        page = self.look(lambda view: adjudications(view, kind=MIGRATION_KIND, limit=1000))
        return [item.receipt for item in page.items]

    @rule(key=NODES)
    def somebody_asks_who_wrote(self, key):
        page = self.look(lambda view: find_operations(view, AuditFilter(entity=key), limit=1000))
        assert {entry.operation_id for entry in page.entries} <= set(self.on_log()) - self.waiting()
        every = self.look(lambda view: find_operations(view, AuditFilter(), limit=1000)).entries
        assert [operation.operation_id for operation in every] == self.on_log()

    @rule(document=DOCUMENTS)
    def somebody_asks_what_would_come_of_it(self, document):
        simulation = Simulation(submitter="orchestrator")
        before = self.states()
        document = self.named(document)
        self.both(
            lambda transaction: simulate_operation(
                KERNEL,
                transaction,
                copy.deepcopy(document),
                NOTHING_FORBIDDEN,
                PROFILE,
                simulation=simulation,
            )
        )
        assert self.states() == before

    @precondition(lambda self: self.open_items())
    @rule(node=NODES, fields=WRITES)
    def what_waited_for_a_person_is_decided(self, node, fields):
        items = self.open_items()[-2:]
        self.send(self.named(edited(node, fields), adjudicates_receipt_ids=items))

    def open_items(self):
        rows = self.look(
            lambda view: [
                row["receipt_id"]
                for row in view.tables.scan(TableQuery(schema.receipts, {"receipt_kind": REVIEW}))
                if resolution_of(view, row["receipt_id"]) is None
            ]
        )
        return sorted(rows)

    @rule(count=st.integers(1, 5))
    def authorities_are_computed(self, count):
        for _ in range(count):
            requests = self.look(lambda view: view.open_requests(queue=AUTHORITY_QUEUE))
            ready = self.look(lambda view: ready_items(view, requests))  # noqa: B023 - called now
            if ready:
                key = ready[0].item_key
                document = self.look(lambda view: recompute(view, key))  # noqa: B023 - called now
                self.send(self.named(document))

    @rule()
    def time_passes(self):
        for fake in self.hosts:
            fake.time_us += 6_000_000

    def teardown(self):
        if not hasattr(self, "ledgers"):
            return
        for ledger in self.ledgers:
            with ledger.view() as view:
                findings = verify(view).findings
            ledger.close()
            assert findings == ()
        self.folder.cleanup()


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=settings().max_examples // 4, stateful_step_count=30)
TestMachine.pytestmark = [pytest.mark.spec("PT-1", "PT-3", "PT-4", "K2", "K6", "§2.3", "§5", "§6")]
