"""Writes the way of something back to its sources, as text for a person and as a Mermaid graph."""

from collections.abc import Iterator

from kernel.audit.provenance import Named, Provenance, Step
from kernel.landscape.lineage_text import Flowchart, text_of_lines

WORDS_SHOWN_MAX = 300
INDENT = "  "


def provenance_text(provenance: Provenance) -> str:
    """Return the way as lines: what comes from something stands below it, each thing once."""
    lines = list(_tree(provenance))
    if provenance.is_cut:
        lines.append(f"... more than the {len(provenance.steps)} steps that are shown")
    return text_of_lines(lines)


def _tree(provenance: Provenance) -> Iterator[str]:
    # A stack, because the way back may be longer than Python nests calls.
    printed: set[Named] = set()
    stack = [(provenance.subject.named, 0)]
    while stack:
        named, depth = stack.pop()
        if named in printed:
            continue
        printed.add(named)
        step = provenance.steps[named]
        yield from (INDENT * depth + line for line in _lines(step))
        known = [each for each in step.because if each in provenance.steps]
        above = [each for each in known if each in printed]
        if above:
            yield f"{INDENT * (depth + 1)}see above: {_names(above)}"
        stack += [(each, depth + 1) for each in reversed(known) if each not in printed]


def _lines(step: Step) -> Iterator[str]:
    yield f"{step.named.kind} {step.named.record_id}: {_words_of_step(step)}"
    for words in step.words:
        at = f"{words.source_ref} [{words.offset}:{words.offset + words.length}]"
        yield f"{INDENT}words at {at}: {_quote(words.text)}"


def _words_of_step(step: Step) -> str:
    said = (f"{name} {_value(value)}" for name, value in step.says.items() if value is not None)
    return ", ".join(said)


def _value(value: object) -> str:
    if isinstance(value, list):
        return " ".join(str(each) for each in value) or "nothing"
    return " ".join(str(value).split())


def _quote(text: str | None) -> str:
    if text is None:
        return "not on the record any more"
    shown = " ".join(text.split())
    return f'"{shown[:WORDS_SHOWN_MAX]}{"..." if len(shown) > WORDS_SHOWN_MAX else ""}"'


NAMES_SHOWN_MAX = 3


def _names(named: list[Named]) -> str:
    shown = ", ".join(f"{each.kind} {each.record_id}" for each in named[:NAMES_SHOWN_MAX])
    beyond = len(named) - NAMES_SHOWN_MAX
    return f"{shown} and {beyond} more" if beyond > 0 else shown


def provenance_mermaid(provenance: Provenance) -> str:
    """Return the way as a graph: an arrow leads from what is to what it comes from."""
    chart = Flowchart()
    boxes = {}
    for named, step in provenance.steps.items():
        stage = step.says.get("stage") or step.says.get("semantic_intent") or ""
        label = " ".join(part for part in (named.kind, named.record_id, str(stage)) if part)
        boxes[named] = chart.box(named, label)
    for named, step in provenance.steps.items():
        for each in step.because:
            if each in boxes:
                chart.arrow(boxes[named], boxes[each])
    return chart.text()
