"""Advice for a histogram of lengths: what was tried, what was found, what to change. It needs no Jupyter."""

from packlib.advisor.advising import advise, lengths_for
from packlib.advisor.findings import Advice, Overhead
from packlib.advisor.records import Recorded, recorded
from packlib.advisor.risks import Risk

__all__ = ["Advice", "Overhead", "Recorded", "Risk", "advise", "lengths_for", "recorded"]
