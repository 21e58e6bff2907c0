"""The table of `kernel/verify/REFERENCE.md` says what verification finds; `make tamper` writes it.

Every change of the table costs minutes of CPU; here the rows of each table are deleted, inserted or
swapped and every twelfth column is changed in one of the three ways. With
HYPOTHESIS_PROFILE=nightly all of it happens.
"""

import os
import re
from pathlib import Path

import pytest

from kernel.ledger import schema
from tests.chains_doc import SCENARIOS, chains_table, rules_of_chain
from tests.owner_doc import ADVERSARIES, HONEST, first_findings, ledger_of, owner_table
from tests.tamper_doc import HEAD, TAIL, Tampering, honest_file, rows_of_the_file

README = Path(__file__).parents[2] / "kernel" / "verify" / "REFERENCE.md"
IN_TURN = os.environ.get("HYPOTHESIS_PROFILE") != "nightly"
_ROW = re.compile(r"^\| `(\w+)` \|(?: `(\w+)` \|)? (.+) \|$", re.MULTILINE)


def stated():
    rows = _ROW.findall(README.read_text())
    return {(table, column or "row"): cells.split(" | ") for table, column, cells in rows}


def test_the_table_has_every_column_of_the_schema():
    # What runs have is changed column by column in `landscape/test_run_seals.py`.
    tables = [table for table in schema.metadata.sorted_tables if "landscape" not in table.name]
    columns = {(table.name, column.name) for table in tables for column in table.columns}
    assert stated().keys() == columns | {(table.name, "row") for table in tables}


def test_whatever_is_not_found_has_its_reason():
    content = README.read_text()
    assert content.startswith(HEAD)
    assert content.endswith(TAIL)
    assert "no reason is known" not in content


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_table_says_what_is_found(tmp_path):
    tampering = Tampering(honest_file(tmp_path / "honest.db"), tmp_path)
    written = stated()
    wrong = []
    for table, column, outcomes in rows_of_the_file(tampering, in_turn=IN_TURN):
        for now, then in zip(outcomes, written[table, column], strict=True):
            if now not in (None, then):
                wrong.append(f"{table}.{column}: {now}, the file says {then}: `make tamper`")
    assert wrong == []


def test_of_one_who_computes_all_of_it_anew_only_what_was_kept_tells():
    """The table in the file is made by the adversaries themselves (`tests/owner_doc.py`)."""
    honest = first_findings(lambda: ledger_of(HONEST))
    assert honest == ["no"] * 4, "nothing is found where nothing was done"
    assert owner_table() in README.read_text()
    for adversary in ADVERSARIES.values():
        nothing_kept, older, head, tree_head = first_findings(adversary)
        assert (nothing_kept, older) == ("no", "no")
        assert head == tree_head


@pytest.mark.parametrize("name", SCENARIOS)
def test_of_each_chain_the_log_tells_or_a_kept_checkpoint_does(name: str):
    scenario = SCENARIOS[name]
    assert rules_of_chain(scenario, forged=False) == ["no"] * 4, "nothing was done"
    alone, anew, older, newer = rules_of_chain(scenario)
    assert alone != "no"
    assert (anew, older, newer) == ("no", "no", "head_not_found")


def test_the_table_of_chains_is_made_by_the_adversaries():
    assert chains_table() in README.read_text()
