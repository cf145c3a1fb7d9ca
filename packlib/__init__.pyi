from . import advisor, batches, bridges, distributed, lengths, model, packing, training, workbook
from .bridges.auditing import audit
from .bridges.check import check_packing
from .bridges.packed_rows import pack_dataset
from .version import __version__

__all__ = [
    "__version__",
    "advisor",
    "audit",
    "batches",
    "bridges",
    "check_packing",
    "distributed",
    "lengths",
    "model",
    "pack_dataset",
    "packing",
    "training",
    "workbook",
]
