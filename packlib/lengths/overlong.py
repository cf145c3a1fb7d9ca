"""Rules for sequences that are longer than a row: the same words for every function and every command.

For rows of 4 tokens, four sequences of 3, 9, 4 and 6 tokens become under

- "error": nothing, since the first that is too long is refused by its length and position;
- "truncate": 3, 4, 4, 4, since a longer sequence keeps its first tokens, as many as a row holds;
- "drop": 3, 4, since a longer sequence is left out;
- "split": 3, 4 + 4 + 1, 4, 4 + 2, since a longer sequence becomes full rows and a remainder.

Functions that make rows, or count lengths for them, refuse longer sequences by default: only the caller knows what may
be lost. A report takes "split", which loses no token, and says what "truncate" and "drop" would lose.
"""

from typing import Literal, get_args

Overlong = Literal["error", "truncate", "drop", "split"]
OVERLONG: tuple[Overlong, ...] = get_args(Overlong)
CutRule = Literal["truncate", "drop", "split"]  # the rules that change a sequence
CUT_RULES: tuple[CutRule, ...] = get_args(CutRule)
