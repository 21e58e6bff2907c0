"""What is read of a docket entry for a fire, in whichever order entries are evaluated (§13.5)."""

import random

import pytest

from actors.orchestrator.intents import CreateSource
from kernel.model.bindings.particulars import NONE_STATED
from kernel.records.source_artifacts import read_artifact
from tests.actors.intents import put
from tests.kernel.build import memory_ledger
from workers.dockets.plan import PRECEDING_ENTRY
from workers.worker.handlers.docket_particulars import DOCKETS_KEPT, DocketParticulars

ENTRIES = (
    ("1", "MOTION for Relief from Stay filed by Ann Acme"),
    ("2", "MOTION to Dismiss Case filed by Bo Bell"),
    ("3", "Objection to (related document(s): 2 Motion to Dismiss Case) filed by Cy Cole"),
    ("4", "ORDER granting Motion For Relief From Stay (Related Doc # 1)"),
)


class Dockets:
    """A ledger with dockets, and what reads them."""

    def __init__(self) -> None:
        self.ledger = memory_ledger()
        self.reader = DocketParticulars()

    def take_in(self, docket: str, *places: int, after: int | None = None) -> None:
        """Put entries on record, each behind the one before it."""
        preceding = None if after is None else f"{docket}#{after}"
        for place in places:
            number, text = ENTRIES[place]
            metadata = {"document_number": number}
            if preceding is not None:
                metadata[PRECEDING_ENTRY] = preceding
            ref = f"{docket}#{place}"
            put(
                self.ledger,
                CreateSource(
                    intent_key=ref,
                    node_id=ref,
                    corpus_id="corpus",
                    content_kind="ecf_entry_text",
                    text=text,
                    metadata=metadata,
                    source_id=docket,
                ),
            )
            preceding = ref

    def read(self, ref: str, target_kind: str = "relationship_candidate"):
        with self.ledger.view() as view:
            artifact = read_artifact(view, ref)
            assert artifact is not None
            return self.reader.read(view, target_kind, artifact)

    def related(self, ref: str):
        """The relation and the filing that an entry is about."""
        related = self.read(ref).related_filing
        return None if related is None else (related.relationship_type, related.target_artifact_ref)


@pytest.fixture
def dockets():
    return Dockets()


EXPECTED = {"d#0": None, "d#1": None, "d#2": ("opposes", "d#1"), "d#3": ("rules_on", "d#0")}


@pytest.mark.spec("§13.5")
@pytest.mark.parametrize("seed", range(6))
def test_an_entry_is_about_the_same_filing_whenever_it_is_read(dockets, seed):
    dockets.take_in("d", *range(len(ENTRIES)))
    refs = list(EXPECTED)
    random.Random(seed).shuffle(refs)
    assert {ref: dockets.related(ref) for ref in refs} == EXPECTED


def test_what_names_a_filing_states_how_sure_that_is_and_why(dockets):
    dockets.take_in("d", *range(len(ENTRIES)))
    related = dockets.read("d#3").related_filing
    assert (related.identity_confidence, related.evidence) == (0.99, "number and words")


def test_entries_that_come_later_are_read_behind_those_that_are_known(dockets):
    dockets.take_in("d", 0, 1)
    assert dockets.related("d#1") is None
    dockets.take_in("d", 2, 3, after=1)
    assert dockets.related("d#3") == EXPECTED["d#3"]
    assert dockets.related("d#2") == EXPECTED["d#2"]


def test_a_docket_that_lost_a_bad_entry_has_no_gap(dockets):
    dockets.take_in("d", 0, 3)
    assert dockets.related("d#3") == EXPECTED["d#3"]


def test_a_docket_whose_order_is_another_is_read_anew(dockets):
    dockets.take_in("d", 0, 1, 2)
    assert dockets.related("d#2") == EXPECTED["d#2"]
    dockets.take_in("d", 3, after=0)
    assert dockets.related("d#3") == EXPECTED["d#3"]
    assert dockets.related("d#2") == EXPECTED["d#2"]


def test_an_entry_behind_one_that_is_missing_states_nothing(dockets):
    dockets.take_in("d", 3, after=0)
    assert dockets.related("d#3") is None


def test_entries_that_name_each_other_end(dockets):
    dockets.take_in("d", 0, after=1)
    dockets.take_in("d", 1, after=0)
    assert dockets.related("d#1") is None


def test_more_dockets_than_are_kept_are_read_again(dockets):
    for name in range(DOCKETS_KEPT + 2):
        dockets.take_in(f"d{name}", 0, 3)
        assert dockets.related(f"d{name}#3") == ("rules_on", f"d{name}#0")
    assert dockets.related("d0#3") == ("rules_on", "d0#0")


def test_a_disposition_is_stated_with_the_words_that_say_it(dockets):
    dockets.take_in("d", *range(len(ENTRIES)))
    stated = dockets.read("d#3", "court_disposition_observation")
    [stretch] = stated.stretches
    text = ENTRIES[3][1]
    assert stated.disposition == "granted"
    assert text[stretch.offset : stretch.offset + stretch.length] == "granting"


@pytest.mark.parametrize(
    "target_kind", ["corpus_document_membership", "case_metadata_update", "extraction_task"]
)
def test_for_other_targets_nothing_is_read(dockets, target_kind):
    dockets.take_in("d", 3)
    assert dockets.read("d#3", target_kind) == NONE_STATED
