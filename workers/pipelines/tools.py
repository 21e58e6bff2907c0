"""Makes what the functions of a pipeline need of their process, by its settings."""

import time
from functools import partial

from anyio.lowlevel import current_token

from actors.synthesis.model_client import ModelClient
from workers.environment.foreign_threads import call_within
from workers.environment.settings import Settings
from workers.environment.system_host import system_host
from workers.pipelines.engine.step import WalkTools
from workers.pipelines.failure_log import FailureLog
from workers.pipelines.model import PipelineModel


def walk_tools(settings: Settings, client: ModelClient) -> WalkTools:
    """Return the tools of this process; functions ask the model on the event loop of the caller."""
    return WalkTools(
        system_host().now_us,
        time.sleep,
        PipelineModel(client, settings.model_timeout_s, current_token()),
        FailureLog().note,
        partial(call_within, settings.foreign_call_s_max),
    )
