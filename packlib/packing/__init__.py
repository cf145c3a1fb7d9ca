"""Packing: plans that put the lengths of a histogram together, and packs that put samples together."""

from packlib.packing.methods import METHODS, plan
from packlib.packing.packs import Packs, assign
from packlib.packing.plans import PackingPlan
from packlib.packing.stream import StreamPacker

__all__ = ["METHODS", "PackingPlan", "Packs", "StreamPacker", "assign", "plan"]
