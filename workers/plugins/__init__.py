"""Defines what a plug-in states: queues with handlers, evaluators, extractors, models."""

from workers.plugins.job_app import App, AppJob
from workers.plugins.jobs import JobContext, JobRefused, RetryAfter
from workers.plugins.queue_plugin import QueuePlugin, Schedule
from workers.plugins.retry import Retry

__all__ = [
    "App",
    "AppJob",
    "JobContext",
    "JobRefused",
    "QueuePlugin",
    "Retry",
    "RetryAfter",
    "Schedule",
]
