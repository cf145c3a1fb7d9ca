"""The game of notebook 02 and of the site: pack sequences by hand against SPFHP, LPFHP and the fewest packs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from packlib.lengths import LengthHistogram

_STATIC = Path(__file__).parent / "publish" / "website" / "static"
# The site runs both as classic scripts, so that pages opened as files run them, too; a widget needs a module.
_SCRIPTS = "".join((_STATIC / name).read_text(encoding="utf-8") for name in ("packing.js", "game.js"))
ON_SITE = "the site has the same game"  # the site makes a link of these words
MOST = 20  # sequences of a puzzle; for more, the search in the browser might not prove the fewest packs


class PackingGame(anywidget.AnyWidget):
    """Play the game in a notebook; without a kernel or widgets, a sentence says where to play it.

    >>> from packbook.game import PackingGame
    >>> PackingGame([6, 5, 3, 2, 2, 2], slots=10).lengths
    [6, 5, 3, 2, 2, 2]

    Args:
        lengths: a puzzle of your own, up to 20 lengths; an empty list plays the built-in levels.
        slots: of a pack.

    Attributes:
        packs: how many packs the last completed puzzle took; 0 before.

    Raises:
        TypeError, ValueError: if a length does not fit into a pack, or if there are too many.
    """

    _esm = f"{_SCRIPTS}export default {{ render: PackingGame.render }};"
    lengths = traitlets.List(traitlets.Int()).tag(sync=True)
    slots = traitlets.Int(10).tag(sync=True)
    packs = traitlets.Int(0).tag(sync=True)

    def __init__(self, lengths: Sequence[int] = (), slots: int = 10) -> None:
        if len(lengths) > MOST:
            raise ValueError(f"lengths must be at most {MOST} numbers, not {len(lengths)}.")
        checked = LengthHistogram.from_lengths(lengths, slots).expand().tolist()[::-1] if len(lengths) else []
        super().__init__(lengths=checked, slots=slots)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle: Any = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        still = f"Run this cell in JupyterLab to pack by hand; {ON_SITE}."
        return {**data, "text/html": f"<p>{still}</p>", "text/plain": still}, metadata
