"""The bundled sample: four real dockets, shortened, with letters for the names of people."""

from importlib.resources import files
from importlib.resources.abc import Traversable


def sample_path() -> Traversable:
    """Return the bundled sample, one docket a line as `read_dockets` takes it."""
    return files("workers.dockets") / "sample.jsonl"
