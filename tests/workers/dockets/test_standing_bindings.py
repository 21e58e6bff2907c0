"""The standing bindings: each target kind once, and which entries each selects."""

from dataclasses import asdict
from typing import get_args

import pytest

from kernel.model.bindings.evaluation import evaluate
from kernel.model.bindings.source_binding import BindingTargetKind, read_source_binding
from tests.workers.dockets.dockets_for_tests import raw_docket, raw_entry, read_one
from workers.dockets.normalisation import normalise, normalise_caption
from workers.dockets.standing_bindings import standing_bindings

BINDINGS = {
    stated["binding_id"]: read_source_binding(
        {name: stated[name] for name in ("selector_list", "target_kind", "corpus_id", "priority")}
    )
    for stated in standing_bindings()
}


def selecting(fields):
    """Return what follows the colon of the ids of the bindings that select an artifact."""
    known = {name: value for name, value in fields.items() if value is not None}
    return {
        binding_id.partition(":")[2]
        for binding_id, binding in BINDINGS.items()
        if evaluate(binding.selectors, known).matched
    }


@pytest.mark.spec("§13.5")
def test_each_target_kind_has_its_binding():
    kinds = sorted(binding.target_kind for binding in BINDINGS.values())
    assert kinds == sorted(get_args(BindingTargetKind))


def test_the_same_set_has_the_same_keys():
    assert standing_bindings() == standing_bindings()
    assert len({stated["intent_key"] for stated in standing_bindings()}) == len(BINDINGS)


@pytest.mark.parametrize(
    ("entry", "selected"),
    [
        (raw_entry("MOTION to Dismiss Case", document_number=2), {"filings", "extractions"}),
        (
            raw_entry("Objection to (related document(s): 2 Motion)", document_number=3),
            {"filings", "relationships", "extractions"},
        ),
        (
            raw_entry("ORDER granting Motion (Related Doc # 2)", document_number=4),
            {"observations", "relationships", "extractions"},
        ),
        (
            raw_entry("Minute Entry: motion granted."),
            {"observations", "relationships", "extractions"},
        ),
        (raw_entry("Notice of Hearing"), {"extractions"}),
        (raw_entry("(FILED UNDER SEAL) MOTION to Dismiss", document_number=5), set()),
    ],
)
def test_an_entry_is_selected_by_what_it_is(entry, selected):
    docket = read_one(raw_docket([entry]))
    fields = {"source_kind": "docket_entry", **asdict(normalise(docket, docket.entries[0]))}
    assert selecting(fields) == selected


def test_a_caption_updates_its_case_and_nothing_else():
    fields = {"source_kind": "docket_caption", **normalise_caption(read_one(raw_docket()))}
    assert selecting(fields) == {"captions"}
