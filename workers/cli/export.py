"""Runs `rotulus export`: the log as a file that needs no ledger to be verified.

It holds one snapshot open while it writes, so the write-ahead log is not cut back meanwhile. A file
takes its name when it is whole. Beside it, in FILE.verifiers, lie the two files that verify proof
files by themselves.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from kernel.audit.export import export_lines
from kernel.proof import proof_file
from workers.cli.common import clean_errors, read_settings
from workers.cli.reading import open_checked
from workers.environment.output import flush_output, write_json_bytes
from workers.environment.private_files import draft_of
from workers.environment.terminal_progress import Progress


@click.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    show_default=True,
    help="Where to write; - is the standard output. A file appears when it is whole, and beside it"
    " FILE.verifiers, which verify proof files by themselves.",
)
def export(output: str) -> None:
    """Write the log as JSON lines, from one snapshot, with everything that verifies it.

    `rotulus verify --export FILE` verifies such a file by itself.
    """
    settings = read_settings()
    with clean_errors(), open_checked(settings) as view, Progress("export") as progress:
        last = view.head().ec_sequence_number
        rows = 0
        with writing_to(output) as write:
            for line in export_lines(view):
                write(line)
                rows += line.startswith(b'{"effects":')
                progress.show(f"{rows} of {last} rows")


@contextmanager
def writing_to(output: str) -> Iterator[Callable[[bytes], object]]:
    """Yield what writes; a file takes its name when everything is on the disk."""
    if output == "-":
        yield write_json_bytes
        flush_output()
        return
    part = draft_of(Path(output))
    try:
        with part.open("wb") as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        part.replace(output)
        _copy_verifiers(Path(f"{output}.verifiers"))
    except OSError as error:
        part.unlink(missing_ok=True)
        raise click.ClickException(f"output_unusable: {output}: {error.strerror}") from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _copy_verifiers(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for suffix in (".py", ".mjs"):
        source = Path(proof_file.__file__).with_suffix(suffix)
        (folder / source.name).write_bytes(source.read_bytes())
