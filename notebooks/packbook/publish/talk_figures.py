"""Figures that only the talk has: recorded seconds of the processor, and what they say in one number."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

from matplotlib.figure import Figure

from packbook.figures import EMPTY, new_figure, series, styled
from packbook.n00_tour.figures import draw_race
from packbook.records import recorded

PACKED = series("packed")["color"]


@dataclass(frozen=True)
class Drawn:
    """A figure with its sentence for those who cannot see it, and the numbers that a headline may say."""

    figure: Figure
    alt: str
    numbers: Mapping[str, Any]
    source: str


def speed_ups() -> dict[str, float]:
    """Return the training speed of a packed BERT in useful tokens per second, divided by that of fully padded rows."""
    ratios = {}
    for name, table in (("wordnet", "model_speed"), ("wikipedia", "model_wikipedia")):
        rows = [row for row in recorded(table).rows if row["run"] == "packed"]
        deepest = max(row["packing factor"] for row in rows)
        ratios[name] = mean(row["realized speed-up"] for row in rows if row["packing factor"] == deepest)
    return ratios


@styled()
def draw_speed_ups() -> Drawn:
    """Return two bars for each data set: useful tokens a second, padded to the maximum and packed."""
    ratios = speed_ups()
    names = {"wordnet": "WordNet,\nrows of 128", "wikipedia": "Wikipedia,\nrows of 512"}
    fig, ax = new_figure()
    for row, name in enumerate(names):
        ax.barh(row - 0.19, 1, 0.34, **EMPTY)
        ax.text(1.08, row - 0.19, "padded: 1", va="center", fontsize=16)
        ax.barh(row + 0.19, ratios[name], 0.34, color=PACKED)
        ax.text(ratios[name] + 0.08, row + 0.19, f"packed: {ratios[name]:.1f}", va="center", fontsize=22)
    ax.set_yticks(range(len(names)), list(names.values()), fontsize=16)
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1.3 * max(ratios.values())), ylim=(len(names) - 0.5, -0.5))
    ax.set_xlabel("tokens of text a second, as a multiple of rows padded to the maximum", fontsize=13)
    ax.set_title(f"Packed, BERT trains on {ratios['wordnet']:.1f} times as many tokens a second")
    listed = " and ".join(f"{ratios[name]:.1f} times on {label.split(',')[0]}" for name, label in names.items())
    alt = f"Useful tokens a second when a small BERT trains on packs, against rows padded to the maximum: {listed}."
    return Drawn(fig, alt, ratios, recorded("model_wikipedia").source)


def draw_the_race() -> Drawn:
    """Return the tour's recorded race, without the run that has no mask."""
    table = recorded("race")
    return Drawn(*draw_race(table.rows), table.source)


FIGURES = {"speed-up": draw_speed_ups, "race": draw_the_race}
