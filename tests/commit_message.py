"""The form of a commit's message: `python -m tests.commit_message FILE`, which pre-commit runs at each commit.

The subject says what the change does in under 72 characters; after an empty line, the body says why.
"""

import sys
from pathlib import Path

_MOST = 71  # characters of a subject


def fault(message: str) -> str:
    """What is wrong with a message, in one sentence; empty if nothing is. Lines that begin with # are git's."""
    lines = [line.rstrip() for line in message.splitlines() if not line.startswith("#")]
    subject, *rest = "\n".join(lines).strip().splitlines() or [""]
    if not subject or len(subject) > _MOST:
        return f"The subject must have 1 to {_MOST} characters, not {len(subject)}: {subject!r}"
    if rest and rest[0]:
        return f"The line below the subject must be empty, not {rest[0]!r}"
    if subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):
        return ""
    return "" if any(rest) else f"The message must say in its body why: {subject!r} has none"


def main(path: str) -> int:
    """Check the message in a file; 1 if it is at fault."""
    if said := fault(Path(path).read_text(encoding="utf-8")):
        print(said, file=sys.stderr)
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
