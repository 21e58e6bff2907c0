"""Loads a pipeline by the name under which Python knows it."""

from importlib import import_module

from actors.errors import PipelineInvalid
from kernel.values.foreign_code import call_foreign, cause_of
from workers.environment.entry_points import import_from_current_folder
from workers.pipelines.engine.pipeline import Pipeline


def load_pipeline(place: str) -> Pipeline:
    """Return the pipeline at `MODULE:NAME`, looked for in the current folder as well.

    Raises:
        PipelineInvalid: the import failed, there is no pipeline, or it cannot run as declared.
    """
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise PipelineInvalid(f"a pipeline is named MODULE:NAME, not {place!r}")
    import_from_current_folder()
    try:
        loaded = call_foreign(lambda: getattr(import_module(module_name), name))
    except PipelineInvalid:
        raise
    except Exception as error:
        raise PipelineInvalid(f"{place} does not load: {cause_of(error)!r}") from error
    if not isinstance(loaded, Pipeline):
        raise PipelineInvalid(f"{place} is a {type(loaded).__name__}, no Pipeline")
    _ = loaded.graph
    return loaded
