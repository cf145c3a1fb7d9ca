from . import advisor, batches, bridges, distributed, lengths, model, packing, training, workbook
from .bridges import check_packing

__all__ = [
    "advisor",
    "batches",
    "bridges",
    "check_packing",
    "distributed",
    "lengths",
    "model",
    "packing",
    "training",
    "workbook",
]
