"""Bridges to other people's trainers: transformers' own, on packs."""

from packlib.installed import needed_by

with needed_by(__name__):
    from packlib.bridges.trainer import PackTrainer

__all__ = ["PackTrainer"]
