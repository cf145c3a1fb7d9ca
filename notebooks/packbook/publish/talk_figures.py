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
BAR_HEIGHT = 0.34  # of the distance between two data sets, each of which has two bars
BAR_OFFSET = 0.19  # of a bar's middle from its data set's, up or down


@dataclass(frozen=True)
class Drawn:
    """A figure, its alt text, the numbers that a headline may say, by name, and where they were recorded."""

    figure: Figure
    alt: str
    numbers: Mapping[str, Any]
    source: str


def speed_ups() -> dict[str, float]:
    """Return, by data set, a packed BERT's training speed in useful tokens per second, divided by that of padded rows.

    Both are recorded; padded rows have the maximum length. Of several packings the one with the highest packing factor
    counts, and of its repeated runs the mean.
    """
    ratios = {}
    for dataset, table in (("wordnet", "model_speed"), ("wikipedia", "model_wikipedia")):
        packed_runs = [row for row in recorded(table).rows if row["run"] == "packed"]
        best_factor = max(run["packing factor"] for run in packed_runs)
        best_runs = [run for run in packed_runs if run["packing factor"] == best_factor]
        ratios[dataset] = mean(run["realized speed-up"] for run in best_runs)
    return ratios


@styled()
def draw_speed_ups() -> Drawn:
    """Draw two bars for each data set: useful tokens a second, padded to the maximum and packed."""
    ratios = speed_ups()
    labels = {"wordnet": "WordNet,\nrows of 128", "wikipedia": "Wikipedia,\nrows of 512"}
    fig, ax = new_figure()
    for row, dataset in enumerate(labels):
        ratio = ratios[dataset]
        ax.barh(row - BAR_OFFSET, 1, BAR_HEIGHT, **EMPTY)
        ax.text(1 + 0.08, row - BAR_OFFSET, "padded: 1", va="center", fontsize=16)
        ax.barh(row + BAR_OFFSET, ratio, BAR_HEIGHT, color=PACKED)
        ax.text(ratio + 0.08, row + BAR_OFFSET, f"packed: {ratio:.1f}", va="center", fontsize=22)
    ax.set_yticks(range(len(labels)), list(labels.values()), fontsize=16)
    ax.tick_params(axis="y", length=0)
    room_for_texts = 1.3  # they stand to the right of the bars
    ax.set(xlim=(0, room_for_texts * max(ratios.values())), ylim=(len(labels) - 0.5, -0.5))
    ax.set_xlabel("tokens of text a second, as a multiple of rows padded to the maximum", fontsize=13)
    ax.set_title(f"Packed, BERT trains on {ratios['wordnet']:.1f} times as many tokens a second")
    listed = " and ".join(f"{ratios[name]:.1f} times on {label.split(',')[0]}" for name, label in labels.items())
    alt = f"Useful tokens a second when a small BERT trains on packs, against rows padded to the maximum: {listed}."
    return Drawn(fig, alt, ratios, recorded("model_wikipedia").source)


def draw_the_race() -> Drawn:
    """Draw the tour's recorded race, without the run that has no mask."""
    table = recorded("race")
    figure, alt, numbers = draw_race(table.rows)
    return Drawn(figure, alt, numbers, table.source)


FIGURES = {"speed-up": draw_speed_ups, "race": draw_the_race}
