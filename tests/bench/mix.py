"""What a producer submits in a benchmark: ten intents in a row, over and over.

Four sources, an understanding of them, three claims that feed it and two changes of a claim. A
source and an understanding have three effects, a claim five, a change one. Claims and changes ask
for the understanding's authority, each with a request and its receipt.
"""

from actors.orchestrator.intents import (
    AdaptFields,
    CreateClaim,
    CreateSource,
    Intent,
    SourceSpan,
    SynthesizeUnderstanding,
)

TEXT = "MOTION to dismiss for failure to state a claim, filed under seal. " * 4
SPAN_CHARS = 60
ROUND = 10
EFFECTS_PER_ENVELOPE = (5 * 3 + 3 * 5 + 2 * 1) / ROUND


def intent_of(caller: int, number: int) -> Intent:
    turn, place = divmod(number, ROUND)
    own = f"{caller}-{turn}"
    key = f"{own}-{place}"
    if place < 4:
        return CreateSource(
            intent_key=key,
            node_id=f"source-{key}",
            corpus_id="c",
            content_kind="motion",
            text=TEXT,
        )
    if place == 4:
        return SynthesizeUnderstanding(
            intent_key=key,
            node_id=f"understanding-{own}",
            corpus_id="c",
            title="What was moved",
            source_spans=(_span(own, 0), _span(own, 1)),
        )
    if place < 8:
        return CreateClaim(
            intent_key=key,
            node_id=f"claim-{own}-{place - 5}",
            corpus_id="c",
            span=_span(own, place - 5),
            text=TEXT[:SPAN_CHARS],
            authority=0.75,
            understanding_id=f"understanding-{own}",
        )
    fields = {"authority": 0.25, "note": "seen by the clerk"}
    return AdaptFields(intent_key=key, node_id=f"claim-{own}-{place - 8}", fields=fields)


def _span(own: str, place: int) -> SourceSpan:
    return SourceSpan(source_ref=f"source-{own}-{place}", offset=0, length=SPAN_CHARS)
