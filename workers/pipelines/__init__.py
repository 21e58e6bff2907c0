"""Defines a user's pipeline; `rotulus pipeline run MODULE:NAME` runs it."""

from workers.pipelines.engine.node import PipelineNode
from workers.pipelines.engine.pipeline import Pipeline
from workers.pipelines.engine.sinks import PipelineSink, SinkItem, SinkWritten
from workers.pipelines.engine.step import NodeStep, RowRefused
from workers.pipelines.file_sinks import CsvSink, JsonLinesSink
from workers.pipelines.file_sources import CsvSource, JsonLinesSource

__all__ = [
    "CsvSink",
    "CsvSource",
    "JsonLinesSink",
    "JsonLinesSource",
    "NodeStep",
    "Pipeline",
    "PipelineNode",
    "PipelineSink",
    "RowRefused",
    "SinkItem",
    "SinkWritten",
]
