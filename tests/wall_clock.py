"""Holds bounds of wall-clock time in the nightly profile alone: a busy machine keeps none."""

import os

IS_NIGHT = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


def hold_at_night(seconds: float, at_most_s: float) -> None:
    """Fail at night where something took longer; the tests of a module with it run then too."""
    if IS_NIGHT:
        assert seconds <= at_most_s
