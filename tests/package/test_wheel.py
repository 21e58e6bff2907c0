"""An installed Rotulus is `rotulus` and `rotulus_client`, however a user's packages are called."""

import ast
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import httpx
import pytest

from build_hook import PACKAGES, text_in_wheel, write_wheels_files
from tests import loopback
from tests.package.installation import ROOT, Installation, copy_tests, install
from tests.parsed_modules import parsed
from tests.ports import free_port
from tests.system.tree_run import wait_for
from workers.cli import pages

pytestmark = pytest.mark.timeout(300)

OURS = re.compile(rf"(?:{'|'.join(PACKAGES)})[./][\w./*-]*")
NAMES_A_PACKAGE = frozenset(
    {"files", "getLogger", "get_logger", "import_module", "run_module", "find_spec"}
    | {"PackageLoader", "entry_points", "version", "as_file", "__import__"}
)
"""Functions whose first argument may be the name of a package."""

SUITE = ("tests/queues/test_queue_delivery.py", "tests/workers/dashboard/test_page.py")

JOBS = """
from kernel import OWNER
from rotulus import App

import workers

app = App()


@app.job()
def owner(of: str) -> dict[str, str]:
    return {"owner": OWNER, "workers": workers.OWNER}
"""

ASK = """
import anyio

from jobs import owner


async def main() -> None:
    job = await owner.enqueue(of="the packages")
    print((await job.result(timeout=60)).result)


anyio.run(main)
"""

VERIFY = """
import sys
from pathlib import Path

from rotulus.workers.environment.ledger_verification import verify_file

if __name__ == "__main__":
    ledger = Path(sys.argv[1])
    print(verify_file(ledger, lambda done, total: None, processes=3, rows_min=1).findings)
"""
"""Verifies with two processes that begin anew and import this module as their parent's."""

SHOP = """
async def ship(order: str) -> None:
    raise ValueError(f"no order {order}")
"""

FAILED = """
import anyio
import shop

from rotulus.workers.environment.foreign_calls import await_foreign
from rotulus.workers.worker.attempts import ErrorTexts


async def main() -> None:
    try:
        await await_foreign("a handler", shop.ship, "7")
    except ValueError as error:
        as_a_worker_catches_it = error.with_traceback(error.__traceback__.tb_next)
        said = await ErrorTexts().of(as_a_worker_catches_it, "code")
        print(said.signature, said.traceback.count("File "), sep="; ")


anyio.run(main)
"""

CALLER = """
from rotulus import App, JobContext
from rotulus.plugins import Particulars
from rotulus_client import BlockingRotulus, GatewayError, Job, Rotulus

app = App()


@app.job(context=True)
async def resize(job: JobContext[object], image_id: str, width: int) -> dict[str, str]:
    await job.progress(3, "begun")
    return {"image_id": image_id}


async def ask() -> Job[dict[str, str]]:
    return await resize.enqueue(image_id="i", width=3)


async def ask_wrongly() -> None:
    await resize.enqueue(image_id=3, width=3)
    (await ask()).resu
"""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel has below its name."""
    folder = tmp_path_factory.mktemp("wheel") / "rotulus"
    write_wheels_files(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def files(folder: Path) -> dict[str, ast.Module]:
    """The modules of the wheel by their paths."""
    modules = parsed(folder.rglob("*.py"))
    return {path.relative_to(folder).as_posix(): module for path, module in modules.items()}


def test_the_wheel_has_every_page_where_the_repository_has_it(folder: Path):
    pages_of_wheel = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    assert pages_of_wheel == {*pages.paths()}
    assert all((folder / path).read_text() == pages.text_of(path) for path in pages.paths())
    assert (folder / "deploy" / "pictures" / "page.png").is_file()


def texts_of(module: ast.Module) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings."""
    prose = {
        id(node.value)
        for node in ast.walk(module)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def named_packages(module: ast.Module) -> Iterator[str]:
    """Yield our names where a text that is one names a package: in a call, and behind `-m`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in NAMES_A_PACKAGE:
                yield from (each for each in map(_text, node.args[:1]) if each in PACKAGES)
        elif isinstance(node, (ast.List, ast.Tuple)):
            parts = [_text(each) for each in node.elts]
            yield from (
                after for before, after in pairwise(parts) if before == "-m" and after in PACKAGES
            )


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_no_text_of_the_wheel_names_a_package_of_the_repository(files: dict[str, ast.Module]):
    assert len(files) > 900
    assert {path: name for path, each in files.items() for name in named_packages(each)} == {}
    places = {
        path: text
        for path, each in files.items()
        for text in texts_of(each)
        if OURS.fullmatch(text)
    }
    assert places == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('files("queues")', {"queues"}),
        ('run(("python", "-m", "workers", kind))', {"workers"}),
        ('state["queues"]', set()),
    ],
)
def test_a_name_of_a_package_is_recognised(text: str, names: set[str]):
    assert {*named_packages(ast.parse(text))} == names


def test_no_module_of_the_wheel_imports_by_a_name_of_the_repository(files: dict[str, ast.Module]):
    for path, module in files.items():
        for node in ast.walk(module):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert not {name.split(".")[0] for name in names} & {*PACKAGES}, path


def test_imports_are_rewritten_where_they_stand():
    text = textwrap.dedent("""\
        from kernel.values import (
            canonical,  # é
        )
        from workers.client.errors import GatewayError; import queues.redis as redis
        from workers.client.typed.gateway import GatewayClient
        import kernel.values.canonical
        from kernels import other
        from . import kernel
        """)
    expected = textwrap.dedent("""\
        from rotulus.kernel.values import (
            canonical,  # é
        )
        from rotulus_client.errors import GatewayError; import rotulus.queues.redis as redis
        from rotulus.workers.client.typed.gateway import GatewayClient
        import rotulus.kernel.values.canonical; from rotulus import kernel
        from kernels import other
        from . import kernel
        """)
    assert text_in_wheel(text) == expected


@pytest.mark.parametrize(
    "line", ["import workers.client", "import os, kernel", "from workers import client, plugins"]
)
def test_an_import_that_its_statement_alone_does_not_decide_ends_the_build(line: str):
    with pytest.raises(ValueError, match="line 1: "):
        text_in_wheel(line)


@pytest.mark.slow
def test_an_installation_has_two_names_and_leaves_the_projects_own(installation: Installation):
    pip = {"_distutils_hack", "pkg_resources", "pip", "setuptools"}
    packages = {path.name for path in installation.site.iterdir() if path.is_dir()}
    assert {name for name in packages - pip if "." not in name} == {"rotulus", "rotulus_client"}
    program = (
        "import actors, kernel, queues, workers, rotulus, rotulus.plugins, rotulus.pipelines;"
        "from rotulus.workers.client.typed.gateway import GatewayError as raised;"
        "from rotulus_client import GatewayError as caught;"
        "print(kernel.OWNER, caught is raised, rotulus.App.__module__.split('.')[0])"
    )
    assert installation.run("python", "-c", program) == "the project, kernel True rotulus\n"
    assert installation.run("python", "-m", "rotulus", "--version").startswith("rotulus, version")
    assert installation.run("rotulus", "docs", "--print", "runbook").startswith("# Runbook")


def is_answered(url: str) -> bool:
    try:
        return loopback.get(url).is_success
    except httpx.TransportError:
        return False


@pytest.mark.slow
def test_a_job_of_the_project_runs_beside_packages_of_our_names(installation: Installation):
    (installation.project / "jobs.py").write_text(JOBS)
    (installation.project / "ask.py").write_text(ASK)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = {"ROTULUS_PORT": str(port), "ROTULUS_GATEWAY_URL": url}
    data = ("--data-dir", str(installation.project.with_name("of-jobs")))
    with subprocess.Popen(
        [installation.bin / "rotulus", "up", "--app", "jobs:app", *data],
        cwd=installation.project,
        env=installation.environment(**settings),
    ) as tree:
        try:
            requests = f"{url}/v1/queues/owner/requests?limit=1"
            wait_for("the queue of the job", lambda: is_answered(requests), 120, 0.1)
            answer = installation.run("python", "ask.py", **settings)
        finally:
            tree.terminate()
    assert answer == "{'owner': 'the project, kernel', 'workers': 'the project, workers'}\n"
    (installation.project / "verify.py").write_text(VERIFY)
    ledger = installation.project.with_name("of-jobs") / "ledger.db"
    assert installation.run("python", "verify.py", str(ledger)) == "()\n"


@pytest.mark.slow
def test_an_error_of_an_installed_plug_in_is_told_from_ours(installation: Installation):
    (installation.site / "shop.py").write_text(SHOP)
    said = installation.run("python", "-c", FAILED)
    assert said == "ValueError in shop.ship: no order #; 1\n"


@pytest.mark.slow
def test_a_new_project_passes_its_tests_there(installation: Installation):
    installation.run("rotulus", "new", "parcels")
    said = installation.run("python", "-m", "pytest", "-q", "parcels")
    assert re.search(r"^\d+ passed", said, re.MULTILINE), said


@pytest.mark.slow
@pytest.mark.nightly  # by day the tree above runs there, and every import and name is looked at
def test_the_demo_runs_beside_packages_of_our_names(installation: Installation):
    with (ROOT / "workers" / "dockets" / "sample.jsonl").open() as sample:
        (installation.project / "few.jsonl").write_text("".join(islice(sample, 2)))
    data = ("--data-dir", str(installation.project.with_name("of-demo")))
    said = installation.run("rotulus", "demo", "few.jsonl", "--exit", "--json", *data)
    assert json.loads(said)["record"]["verifies"]


@pytest.mark.slow
def test_a_callers_types_are_checked(installation: Installation):
    (installation.project / "caller.py").write_text(CALLER)
    python = str(installation.bin / "python")
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "caller.py"],
        cwd=installation.project,
        env=installation.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"caller\.py:(\d+): error: .*\[([a-z-]+)\]", ended.stdout)
    wrong = CALLER.splitlines().index("async def ask_wrongly() -> None:") + 1
    expected = [(str(wrong + 1), "arg-type"), (str(wrong + 2), "attr-defined")]
    assert errors == expected, ended.stdout + ended.stderr


@pytest.mark.slow
def test_a_part_of_the_tests_passes_there(installation: Installation):
    copy_tests(installation)
    said = installation.run("python", "-m", "pytest", *SUITE, HYPOTHESIS_PROFILE="fast")
    assert re.search(r"^\d+ passed", said, re.MULTILINE), said
