"""Holds an elimination store of yours against what every store promises.

ROTULUS_ELIMINATION_STORE=NAME pytest --pyargs rotulus.elimination_store_conformance
"""

from workers.plugins.elimination_store_conformance import *  # noqa: F403 - its tests and fixtures
