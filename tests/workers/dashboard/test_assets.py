"""Files are sent without comments and indents, and lose nothing else."""

import re
from importlib.resources import files

import pytest

from workers import dashboard
from workers.dashboard.assets import MEDIA_TYPES, load_assets

STATIC = files(dashboard).joinpath("static")
MODULES = [name for name in MEDIA_TYPES if name.endswith(".js")]
TEXT = re.compile(r'"[^"\n]*"')
SIGNS = re.compile(r"[:;{},>]\s|\s[{}>]")


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_every_line_of_its_code(name):
    lines = [line.strip() for line in STATIC.joinpath(name).read_text().splitlines()]
    code = [line for line in lines if line and not line.startswith("//")]
    assert [line.strip() for line in load_assets().by_name[name].body.decode().splitlines()] == code
    assert all(line.count("`") % 2 == 0 for line in code), "a text that goes over lines"


def test_the_style_has_every_sign_and_every_text():
    source = re.sub(r"/\*.*?\*/", "", STATIC.joinpath("page.css").read_text(), flags=re.DOTALL)
    sent = load_assets().by_name["page.css"].body.decode()
    assert re.sub(r"\s|;(?=\s*})", "", source) == re.sub(r"\s", "", sent)
    assert TEXT.findall(source) == TEXT.findall(sent)
    assert not [text for text in TEXT.findall(source) if SIGNS.search(text)]
