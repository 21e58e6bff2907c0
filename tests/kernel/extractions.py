"""Sources, tasks and results of extractions, as tests state them."""

from typing import Any

from kernel.work.contents import EXTRACTION_QUEUE
from kernel.work.requests import WorkRequest

PARTIAL = {
    "succeeded_fields": ["party"],
    "failed_fields": [{"field": "judge", "reason": "not_stated"}],
}


def completeness(prior: str, current: str) -> dict[str, Any]:
    """What a step has to state of its completeness, if anything."""
    return {"extraction_completeness": PARTIAL} if (prior, current) == DEGRADING else {}


DEGRADING = ("running", "degraded")


def task(
    run: str = "run-1", source: str = "doc-1", key: str | None = None, **fields: Any
) -> WorkRequest:
    content = {"extraction_run_id": run, "source_ref": source, "corpus_id": "corpus", **fields}
    return WorkRequest(EXTRACTION_QUEUE, key or run, content)


def value(text: str, words: str, field: str = "party", **fields: Any) -> dict[str, Any]:
    start = text.index(words)
    stated = {"field": field, "value": words, "start": start, "end": start + len(words)}
    return stated | {"words": words} | fields


def result(*values: dict[str, Any], **failed: str) -> dict[str, Any]:
    """A result; `failed` are the reasons by their fields."""
    return {
        "extractor": "test@1",
        "values": list(values),
        "extraction_completeness": {
            "succeeded_fields": list(dict.fromkeys(stated["field"] for stated in values)),
            "failed_fields": [{"field": name, "reason": why} for name, why in failed.items()],
        },
    }
