from .audit_findings import PackingAudit
from .auditing import audit
from .trainer import PackTrainer

__all__ = ["PackTrainer", "PackingAudit", "audit"]
