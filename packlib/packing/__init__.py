"""Packing: plans that put sequences of a histogram together, and packs that put samples together."""
