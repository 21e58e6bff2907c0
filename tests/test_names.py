"""Names by which a reader finds a thing: packages say what they hold, and named files are there."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.parsed_modules import ROOT, modules_below

PACKAGES = ("kernel", "queues", "actors", "workers", "deploy/package")
SAYS_NOTHING = frozenset({"one", "found", "told", "asked", "given", "more"})
PARTICIPLE = re.compile(
    r"\w+[^e]ed|agreed|freed|begun|broken|built|chosen|drawn|found|given|gone|grown|heard|held|kept"
    r"|known|left|lost|made|met|said|seen|sent|shown|sold|taken|told|understood|withdrawn|written"
)
PREPOSITIONS = frozenset({"as", "by", "for", "from", "in", "into", "of", "or", "out", "up"})
NAMED_FOR_OTHERS = {
    "enqueued": "what who writes a job's test calls",
    "grown_from": "of the client",
    "lost": "the command `rotulus ledger lost`",
    "recomputed": "the name of its route",
    "verified": "of the client",
    "witnessed": "of the client",
}
"""Functions that users import or call by these names, with who does."""

MAY_BE_A_VARIABLE = re.compile(rf"\b(?:{'|'.join(SAYS_NOTHING)})(?: in\b|\s*[=,:)\]])")
"""Stands in every text that has such a variable; reading a file as Python takes far longer."""

STATED_AND_RECORDED = [
    Path(folder, "contents.py").as_posix() for folder in ("kernel/work", "workers/client")
]

VERB = re.compile(r"(?!Units|Tools|Helpers|Tables|Rows|Proofs|Files|Errors)[A-Z][a-z]+s\b")
"""In the third person; the module is the subject. The others are nouns."""

FILE = re.compile(r"`([\w./]+\.(?:py|lua))`")


def modules() -> dict[Path, ast.Module]:
    return {
        path.relative_to(ROOT): module
        for package in PACKAGES
        for path, module in modules_below(package).items()
    }


def test_every_package_says_what_it_holds():
    silent = [
        path.as_posix()
        for path, module in modules().items()
        if path.name == "__init__.py" and len((ast.get_docstring(module) or "").split()) < 3
    ]
    assert silent == []


def test_a_module_begins_by_saying_what_it_does():
    """Packages and revisions of the schema have a title instead."""
    without = [
        path.as_posix()
        for path, module in modules().items()
        if path.name != "__init__.py" and path.parent.name != "versions"
        if (head := ast.get_docstring(module)) and not VERB.match(head)
    ]
    assert without == []


def test_a_file_that_a_docstring_names_is_there():
    """By its path, or by its name where it lies in the same folder, below or just above it."""
    missing = {
        (path.as_posix(), name)
        for path, module in modules().items()
        for docstring in docstrings_of(module)
        for name in FILE.findall(docstring)
        if not is_there(path.parent, name)
    }
    assert missing == set()


def test_a_public_class_has_a_name_of_its_own():
    """Among all packages, so that a name in a log, a trace or an import line means one thing.

    What a producer states has the name under which it is on the record (`workers/client`, which
    imports nothing of the kernel).
    """
    places = defaultdict(list)
    for path, module in modules().items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.as_posix())
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    stated = {name for name, paths in twice.items() if paths == STATED_AND_RECORDED}
    assert stated == {"BindingEvaluation", "ExtractionTask", "ExtractionTransition"}
    assert twice.keys() - stated == set(), twice


def test_a_variable_says_what_it_is():
    """A field of a document is named by its form, and is none."""
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for package in (*PACKAGES, "tests")
        for path in (ROOT / package).rglob("*.py")
    }
    refused = {
        (path, line, name)
        for path, text in texts.items()
        if MAY_BE_A_VARIABLE.search(text)
        for line, name in variables_of(ast.parse(text))
        if name in SAYS_NOTHING
    }
    assert refused == set()


def test_a_function_says_what_it_returns_or_does():
    """A participle alone says neither; before a noun, as in `stored_facts`, it tells which."""
    bare = {
        node.name
        for module in modules().values()
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not is_a_property(node)
        and is_a_participle(node.name)
    }
    assert bare == NAMED_FOR_OTHERS.keys()


def is_a_participle(name: str) -> bool:
    first, *others = name.strip("_").split("_")
    return PARTICIPLE.fullmatch(first) is not None and (not others or others[0] in PREPOSITIONS)


def is_a_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        isinstance(decorator, ast.Name) and decorator.id in ("property", "cached_property")
        for decorator in function.decorator_list
    )


def variables_of(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Return every name that is assigned and every parameter, each with its line."""
    fields = {
        id(statement.target)
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and id(node) not in fields
        ):
            yield node.lineno, node.id


def docstrings_of(module: ast.Module) -> Iterator[str]:
    """Those of modules, classes and functions, and texts that stand beneath a variable."""
    for node in ast.walk(module):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


def is_there(folder: Path, name: str) -> bool:
    places = (ROOT / name, ROOT / folder.parent / name)
    below = (ROOT / folder).rglob(Path(name).name)
    return any(path.exists() for path in places) or any(
        path.as_posix().endswith(f"/{name}") for path in below
    )
