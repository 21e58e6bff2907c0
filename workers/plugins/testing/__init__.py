"""Runs jobs in memory for their tests: one by itself, or a queue on a real kernel."""

from workers.plugins.testing.job_runs import JobRunner, run_job
from workers.plugins.testing.memory_queues import (
    Drained,
    DrainEndless,
    EnqueuedJob,
    JobFailure,
    Queues,
)
from workers.plugins.testing.moved_clock import MovedClock

__all__ = [
    "DrainEndless",
    "Drained",
    "EnqueuedJob",
    "JobFailure",
    "JobRunner",
    "MovedClock",
    "Queues",
    "run_job",
]
