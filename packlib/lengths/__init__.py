"""Lengths: histograms, where they come from, and what padding costs."""

from packlib.lengths.histogram import LengthHistogram

__all__ = ["LengthHistogram"]
