"""Gives the names that a user's own pipelines import."""

from workers.pipelines import (
    CsvSink,
    CsvSource,
    JsonLinesSink,
    JsonLinesSource,
    NodeStep,
    Pipeline,
    PipelineNode,
    PipelineSink,
    RowRefused,
    SinkItem,
    SinkWritten,
)
from workers.pipelines.fleet import pipeline_queue

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
    "pipeline_queue",
]
