"""A worker as its operator starts it, which may speak another version of the protocol."""

from functools import partial

from tests.chaos import witness
from tests.chaos.another_version import speak_another_version
from workers.cli.common import read_settings, redis_url, run
from workers.worker.process import serve_worker

if __name__ == "__main__":
    witness.admit()
    speak_another_version()
    settings = read_settings()
    run(partial(serve_worker, settings, redis_url(settings)))
