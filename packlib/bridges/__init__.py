"""Bridges to other people's trainers: transformers' own, on packs."""

from packlib.bridges.trainer import PackTrainer

__all__ = ["PackTrainer"]
