"""Histograms of lengths in several chapters: their names, a control to choose one, coarser ones, and samples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import ipywidgets as widgets
import numpy as np

from packbook.explorers import choice
from packlib.arguments import one_line
from packlib.lengths import LengthHistogram, load


def shown_name(histogram: LengthHistogram) -> str:
    """Return the name of a data set for figures, in 30 letters; in parentheses its kind if it was not measured."""
    name = one_line(histogram.name, 30)
    return name if histogram.kind == "measured" else f"{name} ({histogram.kind})"


def sets_to_explore(
    dataset: str, other_datasets: Iterable[str], own_lengths: Sequence[int], slots: int
) -> dict[str, LengthHistogram]:
    """Return histograms by name: the notebook's data set, others, and the reader's own lengths in rows of `slots`."""
    sets = {name: load(name) for name in dict.fromkeys((dataset, *other_datasets))}
    return sets | {"your own": LengthHistogram.from_lengths(own_lengths, slots, name="your own")}


def choice_of_lengths(sets: Mapping[str, LengthHistogram], dataset: str) -> widgets.ValueWidget:
    """Return a control that chooses among histograms, as from `sets_to_explore`; `dataset` is chosen at first."""
    return choice("Lengths", [(shown_name(histogram), name) for name, histogram in sets.items()], dataset)


def in_blocks(histogram: LengthHistogram, blocks: int) -> LengthHistogram:
    """Return a histogram of lengths in blocks of `max_length / blocks` tokens, rounded up, so that packs still fit.

    A histogram whose maximum is at most `blocks` tokens stays as it is.
    """
    blocks = min(blocks, histogram.max_length)
    lengths_in_blocks = -(-np.arange(histogram.max_length + 1) * blocks // histogram.max_length)  # of each length
    counts = np.zeros(blocks + 1, np.int64)
    np.add.at(counts, lengths_in_blocks, histogram.counts)
    return replace(histogram, counts=counts, max_length=blocks)


def sample_lengths(histogram: LengthHistogram, size: int | tuple[int, ...], seed: int) -> np.ndarray:
    """Draw lengths at random, each as often as in the data; int64, of the shape `size`."""
    shares = histogram.counts / histogram.num_sequences
    return np.random.default_rng(seed).choice(len(shares), size, p=shares)
