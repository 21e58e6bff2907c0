"""The detectors that a gateway runs: none ships yet, and without one nothing is read."""

from actors.implications.detector import ImplicationDetector

DETECTORS: tuple[ImplicationDetector, ...] = ()
