"""Runs `rotulus new`: a project with a job, a test, and what they need."""

from collections.abc import Mapping
from keyword import iskeyword
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from workers.cli.common import command_error
from workers.environment.output import command_line, echo

NAME_CHARS_MAX: Final = 60

_MODULE: Final = '''\
"""The jobs of {name}: `rotulus dev {name}.py` serves them."""

from rotulus import App

app = App()


@app.job()
async def greet(who: str, times: int = 1) -> dict[str, str]:
    return {{"said": ", ".join(["hello"] * times) + f", {{who}}"}}
'''

_ASK: Final = '''\
"""Asks for a job of {name} while it is served, and waits for its result."""

import anyio

from {name} import greet


async def main() -> None:
    job = await greet.enqueue(who="world", times=2)
    print((await job.result(timeout=30)).result)


anyio.run(main)
'''

_TEST: Final = '''\
"""The jobs of {name} without servers; `rotulus_queues` is a fixture that Rotulus brings."""

from {name} import greet
from rotulus.testing import Queues, run_job


async def test_a_greeting_says_whom_it_greets() -> None:
    assert await run_job(greet, who="world") == {{"said": "hello, world"}}


async def test_a_greeting_that_is_asked_for_has_a_result(rotulus_queues: Queues) -> None:
    job = await greet.enqueue(who="world", times=2)
    rotulus_queues.assert_enqueued(greet, who="world")
    await rotulus_queues.drain()
    assert (await job.result()).result == {{"said": "hello, hello, world"}}
'''

_PYPROJECT: Final = """\
[project]
name = "{distribution}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["rotulus"]

[dependency-groups]
dev = ["pytest"]

[tool.pytest.ini_options]
pythonpath = ["."]
anyio_mode = "auto"
"""

_README: Final = """\
# {name}

```sh
rotulus dev {name}.py    # serves the jobs at 127.0.0.1:8440, anew whenever the file is changed
python ask.py            # asks for one and prints its result
pytest                   # tests them without servers
```

The page at http://127.0.0.1:8440/ shows what waits and why. What was asked for lies in the folder
`rotulus-data`.
"""

FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "{name}.py": _MODULE,
        "ask.py": _ASK,
        "test_{name}.py": _TEST,
        "pyproject.toml": _PYPROJECT,
        "README.md": _README,
        ".gitignore": "rotulus-data/\n__pycache__/\n",
    }
)
"""What a project has, by the name of each file."""

_TAKEN: Final = frozenset({"ask", "rotulus", "rotulus_client", "pytest", "anyio"})


@click.command()
@click.argument("name")
def new(name: str) -> None:
    """Write a project NAME with a job, its test and what they need into a folder of that name."""
    folder = Path(name)
    if not name.isidentifier() or iskeyword(name) or len(name) > NAME_CHARS_MAX or name in _TAKEN:
        raise command_error(
            "project_name_invalid",
            f"{name!r} is no name of a Python module; letters, digits and _, such as my_jobs",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise command_error("project_folder_used", f"{folder} exists and is not empty")
    folder.mkdir(exist_ok=True)
    words = {"name": name, "distribution": name.replace("_", "-").strip("-").lower()}
    for path, text in FILES.items():
        (folder / path.format(**words)).write_text(text.format(**words))
    echo(
        f"{name}: a job in {name}.py, its test in test_{name}.py",
        f"  {command_line('cd', name)} && {command_line('rotulus', 'dev', f'{name}.py')}",
    )
