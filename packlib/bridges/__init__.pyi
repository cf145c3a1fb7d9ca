from .forms import TransformersCollator, for_transformers
from .packed_rows import pack_dataset
from .stream import PackedStream
from .trainer import PackTrainer

__all__ = ["PackTrainer", "PackedStream", "TransformersCollator", "for_transformers", "pack_dataset"]
