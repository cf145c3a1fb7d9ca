from . import advisor, batches, bridges, distributed, lengths, model, packing, training, workbook
from .bridges.packed_rows import pack_dataset

__all__ = [
    "advisor",
    "batches",
    "bridges",
    "distributed",
    "lengths",
    "model",
    "pack_dataset",
    "packing",
    "training",
    "workbook",
]
