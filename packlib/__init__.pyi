from . import advisor, batches, bridges, distributed, lengths, model, packing, training, workbook
from .bridges.auditing import audit

__all__ = [
    "advisor",
    "audit",
    "batches",
    "bridges",
    "distributed",
    "lengths",
    "model",
    "packing",
    "training",
    "workbook",
]
