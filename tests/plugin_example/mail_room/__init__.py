"""A plug-in: a queue of letters, which are written into a folder, and an extractor."""

import os
from datetime import datetime
from pathlib import Path

import anyio
from pydantic import BaseModel, ConfigDict, Field

from kernel.model.extraction_result import ExtractionResult
from workers.plugins import JobContext, JobRefused, QueuePlugin, Schedule
from workers.worker.handlers.extractor import Extracted, SourceToRead


class Letter(BaseModel):
    model_config = ConfigDict(extra="forbid")

    letter_id: str = Field(min_length=1, max_length=100, pattern="^[a-z0-9-]+$")
    text: str = Field(max_length=10_000)
    takes_s: float = Field(default=0.0, ge=0, le=60)


async def post_letter(job: JobContext[Letter]) -> dict[str, object]:
    letter = job.content
    if letter.text == "unreadable":
        raise JobRefused("unreadable")
    await job.progress(50, "writing")
    await anyio.sleep(letter.takes_s)
    folder = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0])
    await anyio.Path(folder / f"{letter.letter_id}.txt").write_text(letter.text)
    return {"letter_id": letter.letter_id, "attempt": job.attempt}


def daily(at: datetime) -> dict[str, object]:
    return {"letter_id": f"digest-{at:%Y-%m-%d-%H-%M-%S}", "text": "the news of the day"}


LETTERS = QueuePlugin(
    name="letters",
    content=Letter,
    item_key="letter_id",
    handler=post_letter,
    schedules=(Schedule("digest", every_s=86_400, content=daily),),
)


class StampReader:
    limit_s = 5.0
    content_kinds = ("stamp",)

    async def extract(self, _: SourceToRead) -> Extracted:
        return Extracted(ExtractionResult())
