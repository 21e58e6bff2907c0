"""The report counts dockets by what is left of them, and rules by what they did."""

import orjson

from tests.workers.dockets.dockets_for_tests import raw_docket, raw_entry
from workers.dockets.postures import RULES
from workers.dockets.reader import sample_path
from workers.dockets.report import report_on

PETITION = "Chapter 7 Voluntary Petition. Fee Amount $299."
DISMISSED = "ORDER Dismissing Case Debtor."
REINSTATED = "Order Reinstating Case"


def lines(*dockets: list[str]) -> list[bytes]:
    return [
        orjson.dumps(raw_docket([raw_entry(text) for text in texts], source_id=f"test/{number}"))
        for number, texts in enumerate(dockets)
    ]


def test_a_docket_is_counted_by_what_is_left_of_it():
    document = report_on(
        [
            *lines(
                [],
                ["Notice of Hearing"],
                [PETITION],
                [PETITION, "Final Decree"],
                [PETITION, DISMISSED],
                [DISMISSED, REINSTATED],
            ),
            b"not json",
        ]
    ).document()
    assert {
        name: document[name] for name in ("dockets", "one", "several", "none", "unnarrowed")
    } == {
        "dockets": 6,
        "one": 1,
        "several": 2,
        "none": 0,
        "unnarrowed": 3,
    }
    assert document["several_by_order_for_relief_alone"] == 1
    assert document["emptied"] == []
    assert document["input_problems"] == {"docket_line_not_json": 1}
    assert document["by_kind"] == {
        "bankruptcy": {"one": 1, "several": 2, "none": 0, "unnarrowed": 3},
    }
    assert document["rules"]["voluntary_petition_filed"] == {
        "entries": 3,
        "dockets": 3,
        "struck": 3,
    }
    assert document["rules"]["case_dismissed"]["entries"] == 2
    assert document["reversals"] == {
        "case_reinstated": {"entries": 1, "dockets": 1, "undone": 1},
    }
    silent = document["rules_that_read_nothing"]
    assert set(silent) | set(document["rules"]) == {rule.name for rule in RULES}
    assert not set(silent) & set(document["rules"])


def test_the_sample_narrows():
    with sample_path().open("rb") as file:
        document = report_on(file).document()
    assert (document["one"], document["several"], document["none"], document["unnarrowed"]) == (
        2,
        2,
        0,
        0,
    )
    assert document["several_by_order_for_relief_alone"] == 0
    assert document["input_problems"] == {}
