"""Somebody's own JSON, read under the names of a docket's fields."""

import json
import re
from pathlib import Path

import pytest

from tests.dockets_doc import EXAMPLE
from tests.workers.dockets.dockets_for_tests import raw_docket, raw_entry
from workers.dockets import field_map
from workers.dockets.field_map import FIELDS, FieldMap, FieldMapInvalid
from workers.dockets.reader import LIMITS, BadLine, Docket, read_dockets

README = Path(field_map.__file__).parent / "REFERENCE.md"
OWN = {
    "id": 17,
    "court": {"code": "nysd", "a.b": "A v. B"},
    "numbers": ["1:24-cv-1"],
    "filed": "2024-01-02",
    "events": [{"when": "2024-01-03", "text": "COMPLAINT filed.", "no": 1}],
}
MAP = (
    "source_id=id",
    "court_id=court.code",
    "case_name=/court/a.b",
    "docket_number=numbers.0",
    "date_filed=filed",
    "docket_entries=events",
    "docket_entries.date_filed=when",
    "docket_entries.description=text",
    "docket_entries.document_number=no",
)


def read(raw: object, *, paths=(), defaults=()) -> Docket | BadLine:
    fields = FieldMap.of(paths, defaults, FIELDS)
    [item] = read_dockets([json.dumps(raw).encode()], fields)
    return item


def test_the_line_of_the_readme_is_a_docket():
    [line] = re.findall(r"^```json\n(.*)\n```$", README.read_text(), re.MULTILINE)
    assert json.loads(line) == EXAMPLE
    [docket] = read_dockets([line.encode()])
    assert isinstance(docket, Docket)
    assert (len(docket.entries), docket.problems) == (1, ())


def test_data_of_another_form_is_a_docket_where_the_map_says_what_is_where():
    docket = read(OWN, paths=MAP, defaults=("court_kind=district",))
    assert isinstance(docket, Docket)
    assert (docket.source_id, docket.court_id, docket.court_kind) == ("17", "nysd", "district")
    assert (docket.case_name, docket.docket_number) == ("A v. B", "1:24-cv-1")
    [entry] = docket.entries
    assert (entry.description, entry.document_number) == ("COMPLAINT filed.", "1")
    assert str(entry.date_filed) == "2024-01-03"


def test_a_default_stands_where_there_is_nothing_and_nowhere_else():
    defaults = ("court_kind=district", "docket_entries.description=Notice")
    for empty in (None, ""):
        docket = read(raw_docket([raw_entry(empty)], court_kind=empty), defaults=defaults)
        assert isinstance(docket, Docket)
        assert (docket.court_kind, docket.entries[0].description) == ("district", "Notice")
    docket = read(raw_docket([raw_entry("Order")]), defaults=defaults)
    assert isinstance(docket, Docket)
    assert (docket.court_kind, docket.entries[0].description) == ("bankruptcy", "Order")


def test_what_is_not_where_the_map_says_is_missing_under_its_own_name_too():
    bad = read(raw_docket(), paths=("case_name=caption.9.title",))
    assert isinstance(bad, BadLine)
    assert (bad.problem.field, bad.problem.problem) == ("case_name", "no such field")


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (("case_nam=x",), "did you mean 'case_name'"),
        (("docket_entries.text=x",), "is no field"),
        (("case_name",), "FIELD=PATH"),
        (("case_name=",), "FIELD=PATH"),
        (("case_name=a", "case_name=b"), "named twice"),
    ],
)
def test_an_option_that_names_no_field_is_refused(paths: tuple[str, ...], said: str):
    with pytest.raises(FieldMapInvalid, match=re.escape(said)):
        FieldMap.of(paths, (), FIELDS)


def test_the_readme_and_the_help_state_the_limits_that_are_enforced():
    text = README.read_text()
    assert all(f"| {name} | {limit} |" in text for name, limit in LIMITS)
