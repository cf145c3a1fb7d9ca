"""What does it cost? Packed data that others made, counted.

Read first `auditing.py`, `audit`: what is counted. `packed_files.py` reads the formats of others, and
`source_comparison.py` says what became of the sequences. (A folder that is named `audit` would hide the function
`packlib.audit`.)
"""

from packlib.tools.auditing.auditing import audit
from packlib.tools.auditing.packing_audit import PackingAudit

__all__ = ["PackingAudit", "audit"]
