"""Defines what a plug-in states: queues with handlers, evaluators, extractors, models."""

from workers.plugins.jobs import JobContext, JobRefused
from workers.plugins.queue_plugin import QueuePlugin, Schedule

__all__ = ["JobContext", "JobRefused", "QueuePlugin", "Schedule"]
