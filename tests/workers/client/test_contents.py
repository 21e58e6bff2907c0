"""What a producer states with types is what the record reads, field by field."""

from dataclasses import MISSING, fields
from typing import Any, get_args, get_type_hints

import pytest

from kernel.model.bindings.source_binding import BindingTargetKind
from kernel.records.extraction import BlockReason, State
from kernel.values.priorities import CapacityPriority
from kernel.work import contents as recorded
from kernel.work import requests
from kernel.work.queue_kinds import QUEUE_KINDS
from kernel.work.requests import RequestOutcome
from workers.client import contents, jobs
from workers.client import requests as sent
from workers.views.requests import RequestDocument

PAIRS = {
    contents.BindingEvaluation: recorded.BindingEvaluation,
    contents.ExtractionTransition: recorded.ExtractionTransition,
    contents.ExtractionTask: recorded.ExtractionTask,
}


@pytest.mark.parametrize(("stated", "model"), PAIRS.items())
def test_a_content_has_the_fields_of_the_record_and_their_defaults(stated: Any, model: Any):
    defaults = {
        field.name: ... if field.default is MISSING else field.default for field in fields(stated)
    }
    assert defaults == {
        name: ... if field.is_required() else field.default
        for name, field in model.model_fields.items()
    }


@pytest.mark.parametrize(("stated", "model"), PAIRS.items())
def test_what_is_stated_is_read_as_what_its_queue_takes(stated: Any, model: Any):
    texts = {"attempt_number": 1, "prior_state": "pending", "current_state": "running"}
    required = [field.name for field in fields(stated) if field.default is MISSING]
    document = contents.document_of(stated(**{name: texts.get(name, "n") for name in required}))
    assert QUEUE_KINDS[stated.queue].content_of(document) is model
    model.model_validate(document, strict=False)
    assert None not in document.values()


def test_every_content_of_the_record_has_its_type_here():
    forms = {
        form
        for kind in QUEUE_KINDS.values()
        for form in (kind.content, *kind.contents_by_field.values())
        if form is not None
    }
    assert set(PAIRS.values()) == forms


def test_words_are_those_of_the_record():
    for here, there in (
        (contents.CapacityPriority, CapacityPriority),
        (contents.BindingTargetKind, BindingTargetKind),
        (contents.ExtractionState, State),
        (contents.BlockReason, BlockReason),
        (jobs.JobState, requests.State),
    ):
        assert get_args(here) == get_args(there)


def test_answers_have_the_fields_of_the_record():
    for here, there in ((jobs.JobOutcome, RequestOutcome), (jobs.JobStatus, RequestDocument)):
        assert list(get_type_hints(here)) == list(get_type_hints(there))


def test_a_call_holds_as_many_requests_as_the_record_takes():
    assert sent.REQUESTS_MAX == requests.REQUESTS_MAX
