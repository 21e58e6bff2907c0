"""Defines a user's pipeline; `rotulus pipeline run MODULE:NAME` runs it."""

from actors.pipelines.node import PipelineNode
from actors.pipelines.pipeline import Pipeline
from actors.pipelines.sinks import PipelineSink, SinkItem, SinkWritten
from actors.pipelines.step import NodeStep, RowRefused
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
