"""Defines what a plug-in states: queues with handlers, evaluators, extractors, models."""

from workers.plugins.job_app import App, AppJob
from workers.plugins.jobs import JobContext, JobRefused
from workers.plugins.queue_plugin import QueuePlugin, Schedule

__all__ = ["App", "AppJob", "JobContext", "JobRefused", "QueuePlugin", "Schedule"]
