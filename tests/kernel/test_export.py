"""An export proves itself: whatever is changed in it is found, in the line where it was changed."""

import io
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.audit.export import EXPORT_FORMAT, export_lines
from kernel.ledger.ledger import Ledger
from kernel.ledger.sqlite.store import SqliteStore
from kernel.ledger.store.memory import MemoryStore
from kernel.values.canonical import canonicalize, sha256_hex
from kernel.verify import export as verify_module
from kernel.verify.export import verify_export
from tests.kernel.build import FakeHost, adapt, create, ledger_on, memory_ledger, submit
from tests.kernel.honest import write_briefly
from tests.workers.api.door import ANY_JSON


def exported(ledger):
    with ledger.view() as view:
        return list(export_lines(view))


def check(content, **options):
    return verify_export(io.BytesIO(content), **options)


def _honest_lines():
    host = FakeHost()
    ledger = Ledger.create(MemoryStore(), host.host)
    write_briefly(ledger, host)
    # Receipts that no row seals yet, so that every kind of line is there.
    submit(ledger, "nonsense")
    submit(ledger, "more of it")
    return exported(ledger)


LINES = _honest_lines()
WHOLE = b"".join(LINES)
ROW_LINES = [number for number, line in enumerate(LINES) if b'"kind":"row"' in line]


def line_of(position):
    """The number of the line that holds a byte, from one."""
    return WHOLE.count(b"\n", 0, position) + 1


@pytest.mark.spec("§17.5")
def test_an_honest_export_verifies_with_every_kind_of_line_in_it():
    checked = check(WHOLE)
    assert checked.ok, checked.finding
    assert checked.lines == len(LINES)
    assert checked.rows == len(ROW_LINES)
    kinds = [json.loads(line)["kind"] for line in LINES]
    assert (kinds[0], kinds[-1]) == ("header", "head")
    assert kinds[-3:] == ["receipt", "receipt", "head"]
    assert set(kinds) == set(verify_module.MEMBERS)
    assert verify_module.EXPORT_FORMAT == EXPORT_FORMAT


@pytest.mark.spec("§3.4 rule 3", "§17.4")
def test_a_row_of_an_export_has_both_layers_and_the_bytes_that_were_hashed():
    for number in ROW_LINES:
        document = json.loads(LINES[number])
        envelope, row = document["envelope"], document["row"]
        assert row["semantic_intent"] == envelope["semantic_intent"]
        assert len(document["effects"]) == len(envelope["primitive_effects"])
        assert sha256_hex(canonicalize(row)) == document["row_hash"]
        assert canonicalize(row) in LINES[number]
        for receipt in document["receipts"]:
            assert receipt["receipt"]["operation_id"] == row["operation_id"]


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_any_flipped_byte_is_found_in_its_line(position, flip):
    changed = bytearray(WHOLE)
    changed[position] ^= flip
    checked = check(bytes(changed))
    assert not checked.ok
    assert checked.finding.line == line_of(position)


@pytest.mark.parametrize("flip", [0x01, 0x20])
def test_every_single_byte_of_a_small_export_counts(flip):
    ledger = memory_ledger()
    submit(ledger, create("n-1", "Document"))
    submit(ledger, "nonsense")
    whole = b"".join(exported(ledger))
    assert check(whole).ok
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= flip
        assert not check(bytes(changed)).ok, whole[position - 20 : position + 20]


@given(st.integers(0, len(WHOLE) - 1))
def test_a_truncated_file_is_found(length):
    checked = check(WHOLE[:length])
    assert not checked.ok
    assert checked.lines <= line_of(length)


def test_a_file_without_its_last_line_misses_it():
    checked = check(b"".join(LINES[:-1]))
    assert (checked.finding.line, checked.finding.rule) == (len(LINES), "missing")


@pytest.mark.parametrize("index", range(len(LINES)))
def test_a_removed_line_is_found_where_it_was(index):
    checked = check(b"".join(LINES[:index] + LINES[index + 1 :]))
    assert checked.finding.line == index + 1


@pytest.mark.parametrize("index", range(len(LINES)))
def test_a_line_that_comes_twice_is_found(index):
    checked = check(b"".join([*LINES[: index + 1], *LINES[index:]]))
    assert checked.finding.line == index + 2


@pytest.mark.parametrize("index", range(len(LINES) - 1))
def test_swapped_lines_are_found(index):
    first, second = LINES[index : index + 2]
    checked = check(b"".join([*LINES[:index], second, first, *LINES[index + 2 :]]))
    assert checked.finding.line == index + 1


@given(st.data())
def test_lines_in_any_other_order_are_found(data):
    order = data.draw(
        st.permutations(range(len(LINES))).filter(lambda places: places != sorted(places))
    )
    first_moved = next(place for place, index in enumerate(order) if place != index)
    checked = check(b"".join(LINES[index] for index in order))
    assert checked.finding.line == first_moved + 1


@given(st.sampled_from(ROW_LINES), st.data())
def test_whatever_takes_the_place_of_a_value_is_found_and_raises_nothing(number, data):
    document = json.loads(LINES[number])
    place = document
    path = data.draw(st.sampled_from(["", "row", "envelope"]))
    if path:
        place = document[path]
    name = data.draw(st.sampled_from(sorted(place)))
    value = data.draw(ANY_JSON.filter(lambda drawn: drawn != place[name]))
    place[name] = value
    try:
        line = canonicalize(document)
    except ValueError:
        line = json.dumps(document).encode()
    checked = check(b"".join([*LINES[:number], line + b"\n", *LINES[number + 1 :]]))
    assert checked.finding.line == number + 1


@given(st.lists(st.binary(max_size=40) | st.sampled_from(LINES), max_size=5))
def test_no_file_makes_verification_raise(parts):
    content = b"".join(parts)
    assert content == WHOLE or not check(content).ok


def rehashed(number, **changes):
    """A row line whose row says something else and has the hash of it."""
    document = json.loads(LINES[number])
    document["row"] |= changes
    document["row_hash"] = sha256_hex(canonicalize(document["row"]))
    return canonicalize(document) + b"\n"


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("actor", "migration", "field_differs"),
        ("semantic_intent", "annotate", "field_differs"),
        ("effect_kind_set", ["edge_write"], "field_differs"),
        ("schema_version", 2, "field_differs"),
        ("more", 1, "field_differs"),
        ("applied_effects_hash", "0" * 64, "bytes_changed"),
        ("envelope_payload_blob_ref", "0" * 64, "bytes_changed"),
        ("receipt_chain_head", "1" * 64, "link_broken"),
        ("prior_row_hash", "1" * 64, "link_broken"),
        ("ec_sequence_number", "7", "gap"),
        ("committed_at", "1999-01-01T00:00:00.000000Z", "order_broken"),
    ],
)
def test_a_row_that_was_hashed_again_is_found_by_what_it_commits_to(field, value, rule):
    number = ROW_LINES[2]
    checked = check(b"".join([*LINES[:number], rehashed(number, **{field: value})]))
    assert (checked.finding.line, checked.finding.rule) == (number + 1, rule)


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("receipt_sequence", "999", "gap"),
        ("prior_receipt_hash", "1" * 64, "link_broken"),
        ("emitted_at", "1999-01-01T00:00:00.000000Z", "order_broken"),
        ("rules_version", 999, "rules_unknown"),
    ],
)
def test_a_receipt_that_was_hashed_again_is_found_by_what_stands_before_it(field, value, rule):
    documents = [json.loads(line) for line in LINES]
    number = max(place for place, document in enumerate(documents) if "receipt" in document)
    receipt = documents[number]["receipt"] | {field: value}
    hashed = {"receipt": receipt, "receipt_hash": sha256_hex(canonicalize(receipt))}
    changed = canonicalize(documents[number] | hashed) + b"\n"
    checked = check(b"".join([*LINES[:number], changed]))
    assert (checked.finding.line, checked.finding.rule) == (number + 1, rule)


@pytest.mark.parametrize(
    ("number", "changes", "rule"),
    [
        (ROW_LINES[3], {"salt": lambda salt: f" {salt}"}, "not_canonical"),
        (len(LINES) - 2, {"after_row": lambda row: str(int(row) - 1)}, "gap"),
    ],
)
def test_a_line_says_what_it_says_in_one_way_alone(number, changes, rule):
    document = json.loads(LINES[number])
    changed = document | {name: change(document[name]) for name, change in changes.items()}
    assert changed != document
    checked = check(b"".join([*LINES[:number], canonicalize(changed) + b"\n"]))
    assert (checked.finding.line, checked.finding.rule) == (number + 1, rule)


def test_an_envelope_that_was_taken_out_is_missing():
    number = ROW_LINES[3]
    document = json.loads(LINES[number]) | {"envelope": None, "salt": None}
    checked = check(b"".join([*LINES[:number], canonicalize(document) + b"\n"]))
    assert (checked.finding.line, checked.finding.rule) == (number + 1, "missing")


def test_a_line_that_is_too_long_is_refused_before_it_is_read():
    checked = check(WHOLE, line_bytes_max=60)
    assert (checked.finding.line, checked.finding.rule) == (2, "unreadable")


def test_progress_is_told_of_every_row():
    steps = []
    check(WHOLE, progress=steps.append)
    assert steps[-1] == len(ROW_LINES)
    assert sorted(steps) == steps


def test_an_export_speaks_of_one_moment_while_others_write(tmp_path):
    store = SqliteStore(tmp_path / "ledger.db")
    ledger, _ = ledger_on(store)
    submit(ledger, create("n-1", "Document"))
    with ledger.view() as view:
        lines = export_lines(view)
        first = next(lines)
        submit(ledger, adapt("n-1", more=1))
        submit(ledger, "nonsense")
        checked = check(first + b"".join(lines))
    assert (checked.ok, checked.rows, checked.receipts) == (True, 1, 0)
    store.close()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_record(tmp_path):
    store = SqliteStore(tmp_path / "ledger.db")
    ledger, _ = ledger_on(store)
    submit(ledger, create("n-1", "Document"))
    text = "x" * 2_000

    def peak():
        with ledger.view() as view:
            tracemalloc.start()
            size = sum(len(line) for line in export_lines(view))
            _, highest = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        return size, highest

    submit(ledger, *(adapt("n-1", text=text, n=number) for number in range(400)))
    size, highest = peak()
    submit(ledger, *(adapt("n-1", text=text, n=number) for number in range(1_200)))
    size_later, highest_later = peak()
    assert size_later > 3 * size
    assert highest_later < 1.5 * highest
    store.close()
