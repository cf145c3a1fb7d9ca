from .check import check_packing
from .findings import Finding, PackingCheck
from .trainer import PackTrainer

__all__ = ["Finding", "PackTrainer", "PackingCheck", "check_packing"]
