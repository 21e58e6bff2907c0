"""Shows an example: docket entries from a CSV file, classified, and sorted by confidence.

    rotulus pipeline run workers.pipelines.dockets:pipeline --set source=dockets.csv

It writes what is sure and what a person has to look at into two files in the current folder, what
could not be read into a third, and how many entries of each kind there are, by batches, into a
fourth.
"""

import csv
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from workers.pipelines import CsvSink, JsonLinesSink, NodeStep, Pipeline

Row = dict[str, Any]
pipeline = Pipeline("docket-entries", config={"source": str(files(__package__) / "dockets.csv")})


class Kind(BaseModel):
    """What an entry of a docket is, and how sure that is."""

    kind: Literal["order", "motion", "notice", "petition", "judgment", "declaration", "other"]
    confidence: float = Field(ge=0, le=1)


@pipeline.source
def entries() -> Iterator[Row]:
    """Read the entries."""
    with Path(pipeline.config["source"]).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


@pipeline.transform(on_error="unreadable")
def parse(row: Row) -> Row:
    """Keep what is needed of an entry, its words in one line."""
    words = row["description"].split()
    if not words:
        raise ValueError("the entry says nothing")
    return {"docket": row["docket_number"], "filed": row["date_filed"], "text": " ".join(words)}


@pipeline.transform(attempts=3, on_error="unreadable", determinism="external_call")
def classify(row: Row, step: NodeStep) -> Row:
    """Ask the model what an entry is."""
    answer = step.ask_model("What kind of entry of a court docket is this?", row["text"], Kind)
    return {**row, "kind": answer.kind, "confidence": answer.confidence}


@pipeline.gate
def confidence(row: Row) -> list[str]:
    """Send an entry to where it is written, and a copy to where it is counted."""
    return ["sure" if row["confidence"] >= 0.6 else "unsure", "count"]


@pipeline.aggregation(after=confidence["count"], count=10)
def count_kinds(rows: list[Row]) -> Row:
    """Count the kinds of ten entries."""
    return {"entries": len(rows), "kinds": dict(Counter(row["kind"] for row in rows))}


pipeline.sink(JsonLinesSink("kinds.jsonl"), name="kinds", after=count_kinds)
columns = ("docket", "filed", "kind", "confidence", "text")
pipeline.sink(CsvSink("sure.csv", columns), name="sure", after=confidence["sure"])
pipeline.sink(CsvSink("unsure.csv", columns), name="unsure", after=confidence["unsure"])
pipeline.sink(JsonLinesSink("unreadable.jsonl"), name="unreadable")
