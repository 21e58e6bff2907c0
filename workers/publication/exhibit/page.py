"""Lays out an exhibit as one page for A4 and for any browser, without anything from elsewhere.

A text that stands in the log carries the place of its proof (`data-proof`, `data-path`,
`data-words`): the script of the page verifies each proof file and then compares each such text with
what was proved. All else is covered by the page's own fingerprint.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson

from kernel import proof
from kernel.audit.provenance import Named, Step, Words, label_of
from kernel.values.misleading import MISLEADING, visible
from workers.publication.exhibit.exhibit import EXHIBIT_BYTES_MAX, Exhibit, ExhibitRefused
from workers.publication.exhibit.markup import Element, Raw, e, markup

FORMAT: Final = "rotulus-exhibit/v1"
_FOLDER: Final = Path(__file__).parent
_VERIFIER: Final = Path(proof.__file__).parent / "proof_file.mjs"
_SLOT: Final = re.compile(r'(<code id="fingerprint">)[0-9a-f]*')
_TITLES: Final = {
    "survivor": "Why a hypothesis of a belief session stands or was struck",
    "session": "What a belief session has struck",
    "elimination": "Why hypotheses were struck",
    "operation": "What an operation did, and on what grounds",
    "request": "What was asked for, and what came of it",
    "authority": "Where an authority comes from",
    "source": "A source",
    "record": "Where a record comes from",
}
KEY_SHOWN: Final = 64
"""Characters of a key's line that are shown; those of ML-DSA-44 have two thousand."""

_NOT_FACTS: Final = frozenset({"rule", "reason", "struck", "verb", "at", "event_hash"})


def page(exhibit: Exhibit) -> bytes:
    """Return the page of an exhibit.

    Raises:
        ExhibitRefused: it would have more than `EXHIBIT_BYTES_MAX` bytes.
    """
    text = f"<!doctype html>{markup(_document(exhibit))}"
    content = _SLOT.sub(rf"\g<1>{fingerprint(text)}", text, count=1).encode()
    if len(content) > EXHIBIT_BYTES_MAX:
        raise ExhibitRefused(f"the exhibit has more than {EXHIBIT_BYTES_MAX} bytes")
    return content


def fingerprint(text: str) -> str:
    """Return the digest of a page without the fingerprint that stands in it."""
    return sha256(_SLOT.sub(r"\g<1>", text, count=1).encode()).hexdigest()


def page_fingerprint(content: bytes) -> str:
    """Return the fingerprint of the bytes of a page."""
    return fingerprint(content.decode(errors="replace"))


def _document(exhibit: Exhibit) -> Element:
    style = _read("exhibit.css")
    verifier = _VERIFIER.read_text()
    program = f"{verifier}\n{_read('exhibit.mjs')}"
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none';"
        f" style-src '{_hash(style)}'; script-src '{_hash(program)}'"
    )
    title = _TITLES[exhibit.subject.named.kind]
    head = e(
        "head",
        e("meta", charset="utf-8"),
        Element("meta", (("http-equiv", "Content-Security-Policy"), ("content", policy))),
        e("meta", name="viewport", content="width=device-width"),
        e("title", f"Exhibit: {title}"),
        Raw("style", (), (style,)),
    )
    numbers = {named: number for number, named in enumerate(exhibit.proofs)}
    body = e(
        "body",
        e(
            "main",
            e("h1", title),
            e("p", e("code", exhibit.subject.named.record_id)),
            e(
                "output",
                "This copy was not verified: it takes a browser that runs its script.",
                id="verdict",
            ),
            *_sections(exhibit, numbers),
            _about(exhibit, verifier),
        ),
        Raw(
            "script",
            (("type", "application/json"), ("id", "exhibit")),
            (_data(exhibit),),
        ),
        Raw("script", (("type", "module"),), (program,)),
    )
    return e("html", head, body, lang="en")


def _sections(exhibit: Exhibit, numbers: dict[Named, int]) -> Iterator[Element]:
    subject = exhibit.subject
    yield e("section", e("h2", "The decision"), _facts(subject))
    eliminations = exhibit.steps("elimination")
    if eliminations:
        parts = (part for step in eliminations for part in _ground(exhibit, step, numbers))
        yield e("section", e("h2", "The rule and the words"), *parts)
    sources = exhibit.steps("source")
    if sources:
        parts = (_source(exhibit, step, numbers) for step in sources)
        yield e("section", e("h2", "The sources"), *parts)
    kinds = ("record", "authority", "request", "session")
    others = [step for step in exhibit.steps(*kinds) if step is not subject]
    if others:
        parts = (part for step in others for part in (_name(step.named), _facts(step)))
        yield e("section", e("h2", "On the way"), *parts)
    operations = exhibit.steps("operation")
    if operations:
        yield e("section", e("h2", "Who did what, and when"), _operations(operations, numbers))
    yield e("section", e("h2", "What was undone"), _undone(exhibit))
    if exhibit.withheld:
        yield e("section", e("h2", "What is withheld"), _withheld(exhibit))


def _facts(step: Step) -> Element:
    facts = [(name, value) for name, value in step.says.items() if value is not None]
    if step.named.kind == "elimination":
        facts = [fact for fact in facts if fact[0] not in _NOT_FACTS]
    rows = [e("tr", e("th", label_of(name)), e("td", _text(value))) for name, value in facts]
    return e("table", e("tbody", *rows))


def _ground(exhibit: Exhibit, step: Step, numbers: dict[Named, int]) -> Iterator[Element]:
    says, number = step.says, numbers.get(step.named)
    yield _name(step.named)
    rows = []
    for label, name, path in (
        ("struck", "struck", "event.delta.eliminated"),
        ("rule", "rule", "event.payload.justification.rule"),
        ("reason", "reason", "event.payload.justification.reason"),
        ("recorded at", "at", "event.ts"),
    ):
        if name in says:
            rows.append(e("tr", e("th", label), _fact("td", _text(says[name]), number, path)))
    yield e("table", e("tbody", *rows), class_="ground")
    for words in step.words:
        yield _quote(exhibit, words, numbers)
    if says.get("verb") == "SUCCEED_SESSION":
        yield _facts(step)


def _source(exhibit: Exhibit, step: Step, numbers: dict[Named, int]) -> Element:
    quoted = [
        words
        for elimination in exhibit.steps("elimination", "record", "authority")
        for words in elimination.words
        if words.source_ref == step.named.record_id
    ]
    whole = [_quote(exhibit, words, numbers, marked=quoted) for words in step.words]
    return e("div", _name(step.named), *whole, _facts(step), class_="source")


def _quote(
    exhibit: Exhibit, words: Words, numbers: dict[Named, int], marked: Iterable[Words] = ()
) -> Element:
    """Return words of a source, where they are shown by the operation that brought the source."""
    writer = _writer(exhibit, words.source_ref)
    place = f"{words.source_ref}, characters {words.offset} to {words.offset + words.length}"
    caption = e("figcaption", place)
    if words.text is None:
        return e("figure", e("p", "The words are not on the record any more."), caption)
    if writer is None or writer in exhibit.withheld:
        return e("figure", e("p", "The words are withheld."), caption)
    text = visible(words.text)
    attributes = (
        ("data-words", str(numbers[writer])),
        ("data-offset", str(words.offset)),
        ("data-length", str(len(words.text))),
    )
    quote = Element("blockquote", attributes, tuple(_mark_words(text, words.offset, marked)))
    return e("figure", quote, caption)


def _mark_words(text: str, offset: int, marked: Iterable[Words]) -> Iterator[Element | str]:
    """Yield a text with its stretches marked that something was drawn from."""
    cuts = sorted(
        (max(each.offset - offset, 0), min(each.offset + each.length - offset, len(text)))
        for each in marked
    )
    done = 0
    for cut, end in cuts:
        start = max(cut, done)
        if start < end:
            yield from (piece for piece in (text[done:start],) if piece)
            yield e("mark", text[start:end])
            done = end
    if text[done:]:
        yield text[done:]


def _operations(steps: list[Step], numbers: dict[Named, int]) -> Element:
    paths = {
        "ec_sequence_number": "row.ec_sequence_number",
        "committed_at": "row.committed_at",
        "actor": "row.actor",
        "semantic_intent": "row.semantic_intent",
    }
    head = e("tr", *(e("th", each) for each in ("Row", "Committed", "By", "What", "Operation")))
    rows = [
        e(
            "tr",
            *(
                _fact("td", _text(step.says.get(name)), numbers.get(step.named), path)
                for name, path in paths.items()
            ),
            e(
                "td",
                _fact("code", step.named.record_id, numbers.get(step.named), "row.operation_id"),
            ),
        )
        for step in sorted(steps, key=lambda step: int(step.says["ec_sequence_number"]))
    ]
    return e("table", e("thead", head), e("tbody", *rows), class_="operations")


def _undone(exhibit: Exhibit) -> Element:
    if not exhibit.undone_by:
        return e("p", "No operation in this exhibit had been undone when it was written.")
    lines = (
        e("li", e("code", undone), " was undone by ", e("code", by))
        for undone, by in exhibit.undone_by.items()
    )
    return e("ul", *lines)


def _withheld(exhibit: Exhibit) -> Element:
    lines = (
        e("li", f"{named.kind} ", e("code", named.record_id), f": {reason}")
        for named, reason in exhibit.withheld.items()
    )
    return e("ul", *lines)


def _about(exhibit: Exhibit, verifier: str) -> Element:
    keys = (
        e(
            "tr",
            e("th", "fingerprint of a key"),
            e("td", e("code", _digest(vkey)), " ", e("code", vkey[:KEY_SHOWN])),
        )
        for vkey in exhibit.vkeys
    )
    shown, _, signatures = exhibit.note.partition("\n\n")
    signers = " and ".join(line.split(" ")[1] for line in signatures.splitlines() if " " in line)
    return e(
        "section",
        e("h2", "How to check this page"),
        e(
            "p",
            "Open the file in a browser, from any place and without a network: it computes every"
            " proof again and compares each text with a mark beside it with what was proved. What"
            " has no mark is stated by who wrote the page. A page can be made to say anything of"
            " itself, so compare the fingerprints with those that you have from elsewhere (each is"
            " SHA-256: of the key's line, of the verifier's file), or verify the file with a"
            " program of your own: ",
            e("code", "rotulus verify --exhibit FILE --vkey KEY"),
            ".",
        ),
        e(
            "table",
            e(
                "tbody",
                e("tr", e("th", "fingerprint of this page"), e("td", e("code", id="fingerprint"))),
                e(
                    "tr",
                    e("th", "fingerprint of the verifier"),
                    e("td", e("code", _digest(verifier), id="verifier")),
                ),
                *keys,
            ),
        ),
        e(
            "figure",
            e("blockquote", shown),
            e("figcaption", f"the checkpoint: log, rows, root; signed by {signers}"),
        ),
        e(
            "p",
            "The file itself, byte for byte: ",
            e("input", type="file", id="file", aria_label="This file"),
            e("output", id="of-file"),
        ),
    )


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _name(named: Named) -> Element:
    return e("h3", f"{named.kind} ", e("code", named.record_id))


def _fact(name: str, text: str, number: int | None, path: str) -> Element:
    if number is None:
        return e(name, text)
    return e(name, text, data_proof=str(number), data_path=path)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return visible(" ".join(str(each) for each in value))
    return visible("" if value is None else str(value))


def _writer(exhibit: Exhibit, source_ref: str) -> Named | None:
    """Return the operation that brought a source, where its proof shows the source's text."""
    source = exhibit.provenance.steps.get(Named("source", source_ref))
    if source is None:
        return None
    return next((each for each in source.because if each in exhibit.proofs), None)


def _data(exhibit: Exhibit) -> str:
    document = {
        "format": FORMAT,
        "subject": {"kind": exhibit.subject.named.kind, "id": exhibit.subject.named.record_id},
        "vkeys": exhibit.vkeys,
        "proofs": [
            {"kind": proof.kind, "id": named.record_id, "content": proof.content}
            for named, proof in exhibit.proofs.items()
        ],
    }
    # No text in a script may look like the end of it, or mislead who reads the file.
    text = orjson.dumps(document).decode().replace("<", "\\u003c")
    return MISLEADING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text()


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"
