from .audit_findings import PackingAudit
from .auditing import audit
from .check import check_packing
from .findings import Finding, PackingCheck
from .forms import TransformersCollator, for_transformers
from .packed_rows import pack_dataset
from .stream import PackedStream
from .trainer import PackTrainer

__all__ = [
    "Finding",
    "PackTrainer",
    "PackedStream",
    "PackingAudit",
    "PackingCheck",
    "TransformersCollator",
    "audit",
    "check_packing",
    "for_transformers",
    "pack_dataset",
]
