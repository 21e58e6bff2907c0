"""Providers of installed packages are found by entry point, and a broken one hides no other."""

import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.foreign_ends import ENDS, nobody_at_the_keyboard
from workers.kits.discovery import GROUP, discover_providers

MODULE = """
class Provider:
    def id(self): return "packaged"
    def version(self): return "3"
    def hypothesis_ids(self): return ["a", "b"]
    def probe_ids(self): return ["p"]
    def apply_probe(self, probe_id, response): return {"a": response == "x"}

made = Provider()
def broken(): raise RuntimeError("no data")
nothing = 3
"""
POINTS = """
[rotulus.hypotheses]
a_class = packaged_hypotheses:Provider
an_object = packaged_hypotheses:made
fails = packaged_hypotheses:broken
is_none = packaged_hypotheses:nothing
missing = packaged_hypotheses:absent
[cmbs.hypotheses]
another_group = packaged_hypotheses:made
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that is installed for the length of a test."""
    (tmp_path / "packaged_hypotheses.py").write_text(MODULE)
    info = tmp_path / "packaged_hypotheses-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: packaged-hypotheses\nVersion: 1\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("packaged_hypotheses", None)


def test_the_group_is_our_own():
    assert GROUP == "rotulus.hypotheses"


def test_classes_and_objects_are_found_and_the_rest_is_told(package):
    with capture_logs() as logs:
        providers = discover_providers()
    assert {"a_class", "an_object"} <= set(providers)
    assert not {"fails", "is_none", "missing", "another_group"} & set(providers)
    assert providers["a_class"].apply_probe("p", "x") == {"a": True}
    names = {line["name"] for line in logs if line["event"] == "provider_left_out"}
    assert names == {"fails", "is_none", "missing"}


def test_without_such_a_package_there_is_none():
    assert "a_class" not in discover_providers()


@pytest.mark.parametrize("name", ENDS)
def test_however_a_package_ends_that_is_imported_or_called_it_hides_no_other(
    tmp_path, monkeypatch, name
):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    for module, call in (("packaged_calls", ""), ("packaged_imports", "end()")):
        info = tmp_path / f"{module}-1.dist-info"
        info.mkdir()
        program = f"from tests.foreign_ends import ENDS\nend = ENDS[{name!r}]\n{call}\n"
        (tmp_path / f"{module}.py").write_text(program)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{module} = {module}:end\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with nobody_at_the_keyboard(), capture_logs() as logs:
        assert not {"packaged_calls", "packaged_imports"} & set(discover_providers())
    failed = {line["name"] for line in logs if line["event"] == "provider_failed"}
    assert failed == {"packaged_calls", "packaged_imports"}
    for module in failed:
        sys.modules.pop(module, None)
