"""Hostile proof files: where two readers of JSON differ, the files that stand alone do not.

Whoever owns a log signs what he likes, and whoever sends a file writes it as he likes. What one of
the two would take and the other refuse would show to one person what another is told is nothing.
"""

import json
import sys

import pytest

from kernel.ledger.ledger import blob_commitment
from kernel.proof import proof_file, signing_keys
from kernel.proof.checkpoint import Checkpoint, SignedCheckpoint, sign_checkpoint
from kernel.proof.merkle_tree import leaf_hash
from kernel.proof.proof_file import FORMAT, ProofFileInvalid, verify_proof_file
from kernel.proof.signed_note import NoteSignature
from kernel.proof.signing_keys import is_key_name
from kernel.proof.verification import ProofInvalid
from tests.proof_verifiers import NODE, asked_of_the_script
from tests.signed_log import ORIGIN, log_key

pytestmark = pytest.mark.spec("P5")

KEY, SALT = log_key(), b"s" * 32
ABSENT = object()
DEEP, LONG = "[" * 5000 + "]" * 5000, "9" * 5000


def without_absent(document):
    return {name: value for name, value in document.items() if value is not ABSENT}


def noted(row):
    """The note of a log of one row."""
    return sign_checkpoint(Checkpoint(ORIGIN, 1, leaf_hash(row.encode())), [KEY])


def file_of(kind, verb, effect, *, note=lambda signed: signed, **members):
    """A file of a log of one row, whose envelope states what is to be proved."""
    content = effect if isinstance(effect, str) else json.dumps(effect)
    text = f'{{"semantic_intent": "{verb}", "primitive_effects": [{content}]}}'
    committed = blob_commitment(SALT, text.encode())
    row = json.dumps({"ec_sequence_number": "1", "envelope_payload_blob_ref": committed})
    signed = note(noted(row)).to_bytes().decode()
    document = {
        "format": FORMAT,
        "kind": kind,
        "row": row,
        "tlog_proof": f"c2sp.org/tlog-proof@v1\nindex 0\n\n{signed}",
        "envelope": {"salt": SALT.hex(), "content": text},
    }
    return json.dumps(document | members)


def hash_of(event):
    return proof_file.sha256(event.encode()).hexdigest()


def elimination(others=(), *, event=None, sessions=None, **changes):
    """A file of a tombstone, anchored as the log says."""
    stated = {"session_id": "s", "verb": "ELIMINATE", "prev_event_hash": "0" * 64} | (event or {})
    text = json.dumps(without_absent(stated))
    anchor = {
        "session_id": "s",
        "first_event_index": 1,
        "last_event_index": 1,
        "head_event_hash": hash_of(text),
    }
    anchors = [without_absent(anchor | changes), *others]
    payload = {"sessions": anchors if sessions is None else sessions(anchors)}
    return file_of("elimination", "belief_anchor", {"payload": payload}, events=[text])


def manifest(effect=None):
    stated = {"receipt_subkind": "binding_evaluation_manifest", "payload": {"a": 1}}
    return file_of("manifest", "m", stated if effect is None else effect)


def outcome(*, receipt=None, sealed=None, **changes):
    """A file of the outcome of a request, alone in its range."""
    stated = {"receipt_sequence": "7", "receipt_kind": "work_request_closed", "request_id": "r"}
    text = json.dumps(without_absent(stated | (receipt or {})))
    leaf = leaf_hash(proof_file.sha256(text.encode()).digest())
    payload = {"first_receipt": "7", "last_receipt": "7", "root_hash": leaf.hex()} | (sealed or {})
    effect = {"receipt_subkind": "receipts_sealed", "payload": without_absent(payload)}
    members = {"receipt": text, "receipt_path": []} | changes
    return file_of("request", "receipts_seal", effect, **without_absent(members))


HONEST = manifest()
NOT_ANCHORS = ("junk", 5, 1.5, True, None, [], {}, {"session": "s"}, [["session_id", "s"]])

TAKEN = [
    HONEST,
    outcome(),
    outcome(receipt={"receipt_kind": "authority_recompute_dead_lettered", "handler_result": {}}),
    elimination(),
    elimination([{"session_id": "t"}, {"session_id": 5}, {"session_id": None}]),
    elimination(first_event_index=1.0, last_event_index=1e0),
    manifest({"receipt_subkind": "binding_evaluation_manifest", "payload": None}),
    manifest('{"payload": 1, "receipt_subkind": "binding_evaluation_manifest", "payload": 2}'),
    HONEST.replace('"kind"', '"kind": "operation", "kind"'),
    f" \t\r\n{HONEST} \n",
    HONEST.replace('"kind"', f'"kind": {"[" * 100}1{"]" * 100}, "kind"'),
    HONEST.replace('"kind"', f'"kind": {"9" * 400}, "kind"'),
    HONEST.replace('"kind"', '"kind": 1e999, "kind"'),
    HONEST.replace('"manifest"', '"\\u006danifest"'),
]
REFUSED = [
    *(elimination([other]) for other in NOT_ANCHORS),
    *(elimination(sessions=lambda _, value=value: value) for value in (*NOT_ANCHORS, ABSENT)[:-1]),
    elimination(sessions=lambda anchors: {"0": anchors[0]}),
    elimination([{"session_id": "s"}]),
    *(elimination(first_event_index=value) for value in (True, None, "1", 0.5, 2, [1], ABSENT)),
    *(elimination(last_event_index=value) for value in (2**53, -(2**60), "9", False, ABSENT)),
    *(elimination(event={"session_id": value}, session_id=value) for value in (5, 1.0, None, [])),
    elimination(event={"verb": ABSENT}),
    elimination(event={"verb": ["ELIMINATE"]}),
    manifest({"receipt_subkind": "binding_evaluation_manifest"}),
    manifest(["receipt_subkind"]),
    *(manifest(effect) for effect in ("null", "7", '"receipt_subkind"', "[]", "{}")),
    *(HONEST.replace('"kind"', f'"kind": {odd}, "kind"') for odd in (DEEP, LONG, f"-{LONG}")),
    HONEST.replace('"kind"', f'"kind": {"[" * 128}1{"]" * 128}, "kind"'),
    HONEST.replace('"kind"', f'"kind": {"9" * 401}, "kind"'),
    HONEST.replace('"kind"', f'"kind": 0.{LONG}, "kind"'),
    HONEST.replace('"kind"', f'"k\\"]": {DEEP}, "kind"'),
    *(HONEST.replace('"kind"', f'"kind": {odd}, "kind"') for odd in ("NaN", "-Infinity", "01")),
    *(HONEST.replace('"kind"', f'"kind": {odd}, "kind"') for odd in ("1.", ".5", "+1", "'a'", "")),
    HONEST.replace('"kind"', '"__proto__": {}, "kind"'),
    HONEST.replace('"kind"', '"constructor": 1, "kind"'),
    f"\ufeff{HONEST}",
    f"{HONEST}\x00",
    f"{HONEST}\u00a0",
    f"[{HONEST}]",
    f"{HONEST}{HONEST}",
    HONEST[:-1],
    *(outcome(receipt={"receipt_sequence": value}) for value in (7, 7.0, "07", "8", "", None)),
    *(outcome(receipt={"receipt_kind": value}) for value in ("x", ["work_request_closed"], ABSENT)),
    *(outcome(receipt={"request_id": value}) for value in (1, None, ["r"], {}, ABSENT)),
    *(outcome(sealed={"first_receipt": value}) for value in (7, "6", "8", "-1", "7.0", ABSENT)),
    *(outcome(sealed={"last_receipt": value}) for value in (7, "6", "8", LONG, True, ABSENT)),
    *(outcome(sealed={"root_hash": value}) for value in ("AB" * 32, "", 5, None, ABSENT)),
    *(outcome(receipt_path=value) for value in ([""], ["x"], {}, "", None, [[]], ABSENT)),
    outcome().replace("receipt_kind", f'k\\": {DEEP}, \\"receipt_kind'),
    *(outcome(receipt=None, sealed=None, receipt_path=[], extra=value) for value in (1, None)),
    HONEST.replace('"manifest"', '"manifest\x00"'),
    HONEST.replace('"manifest"', '"toString"'),
]


def judged(content):
    try:
        return verify_proof_file(content.encode(), KEY.verifier.vkey)
    except ProofFileInvalid:
        return None


def assert_all(files, *, taken):
    judgements = [judged(content) for content in files]
    assert [proved is not None for proved in judgements] == [taken] * len(files)
    if NODE is not None:
        question = {"kind": "file", "vkeys": [KEY.verifier.vkey], "policy": None}
        questions = (question | {"content": content.encode().hex()} for content in files)
        assert asked_of_the_script(questions) == judgements


def test_what_both_read_alike_is_taken():
    assert_all(TAKEN, taken=True)


def test_what_two_readers_would_read_differently_is_refused_by_both():
    assert_all(REFUSED, taken=False)


EDGES = (0x20, 0x2B, 0x7F, 0xA0, 0xAD, 0x600, 0x605, 0x61C, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2)
EDGES += (0x1680, 0x180E, 0x2000, 0x200F, 0x2028, 0x202F, 0x205F, 0x206F, 0x3000, 0xE000, 0xF8FF)
EDGES += (0xFEFF, 0xFFF9, 0xFFFB, 0xE0000, 0xE0FFF)
SEEN = (0x21, 0x41, 0xE9, 0x378, 0x1FAE8, 0x2FFFF, 0x10FFFF, 0xFFFD, 0x1F600, 0x4E00)


def named(character):
    """A file whose note has a line of an unknown key of this name besides that of its log."""

    def with_line(signed):
        line = NoteSignature(f"a{character}b", b"abcd", b"x" * 64)
        return signed.with_signatures([line])

    return file_of(
        "manifest", "m", {"receipt_subkind": "binding_evaluation_manifest", "payload": 1},
        note=with_line,
    )  # fmt: skip


def test_a_name_of_a_key_is_one_for_every_version_of_unicode():
    assert signing_keys._NO_NAME.pattern == proof_file._NO_NAME.pattern  # noqa: SLF001
    near = [*(edge - 1 for edge in EDGES), *EDGES, *(edge + 1 for edge in EDGES), *SEEN]
    characters = [chr(code) for code in near if code > 0x20 and not 0xD800 <= code < 0xE000]
    takes = [is_key_name(f"a{character}b") for character in characters]
    assert all(is_key_name(chr(code)) for code in SEEN)
    assert not any(is_key_name(chr(edge)) for edge in EDGES)
    for expected in (True, False):
        files = [
            named(c) for c, is_name in zip(characters, takes, strict=True) if is_name is expected
        ]
        assert len(files) > 10
        assert_all(files, taken=expected)


def test_no_blank_and_no_control_character_of_unicode_is_in_a_name():
    hidden = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
    assert not any(is_key_name(f"a{character}") for character in hidden)
    note = noted("{}").to_bytes().replace(b"example.com/log ", "example.com\u200b/log ".encode())
    with pytest.raises(ProofInvalid):
        SignedCheckpoint.of_bytes(note)
