"""A gateway's loop is uvloop's where that is installed, and else asyncio's own."""

import asyncio
import sys

import anyio
import pytest

from workers.environment.event_loop import serving_loop


def kind_of_loop():
    async def kind():
        return type(asyncio.get_running_loop())

    options = {"loop_factory": serving_loop()}
    return anyio.run(kind, backend="asyncio", backend_options=options)


def test_the_loop_is_uvloops_where_it_is_installed():
    uvloop = pytest.importorskip("uvloop")
    assert kind_of_loop() is uvloop.Loop


def test_the_loop_is_asyncios_where_it_is_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert serving_loop() is None
    assert issubclass(kind_of_loop(), asyncio.BaseEventLoop)
