"""A plug-in: a queue of letters, which are written into a folder, an extractor and a model."""

import json
import os
import re
from datetime import datetime
from pathlib import Path

import anyio
from pydantic import BaseModel, ConfigDict, Field

from rotulus import JobContext, JobRefused, QueuePlugin, Schedule
from rotulus.plugins import Extracted, ModelAnswer, ModelCall, SourceToRead


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
    claim_authority = 0.75

    async def extract(self, read: SourceToRead) -> Extracted:
        words = read.source.text.removeprefix("POSTED ")
        start = len(read.source.text) - len(words)
        end = start + len(words)
        posted = {"field": "posted", "value": words, "start": start, "end": end, "words": words}
        complete = {"succeeded_fields": ["posted"], "failed_fields": []}
        document = {"extractor": "mail_room.stamp@1", "values": [posted]}
        return Extracted(document | {"extraction_completeness": complete})


class Addressee:
    """A model that takes the words behind "Dear" for the party."""

    external = False

    async def complete(self, call: ModelCall) -> ModelAnswer:
        name = re.findall(r"Dear ([\w ]+)", call.prompt)[-1]
        value = {"field": "party", "value": name, "quote": name}
        answer = {"intent_kind": "extracted_fields", "values": [value]}
        return ModelAnswer(json.dumps(answer | {"unreadable_fields": []}), "addressee-1", "local")
