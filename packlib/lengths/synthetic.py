"""Make histograms of synthetic lengths: expected counts by formula, without chance.

Every function returns `num_sequences` sequences for packs of `max_length`; longer ones are cut to it.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from packlib.arguments import number, shown, whole_number
from packlib.lengths.counting import MAX_LENGTH, apportion
from packlib.lengths.histogram import LengthHistogram

_MOST = 1_000_000  # the largest value of a parameter of a distribution


def log_normal(
    num_sequences: int = 1_000_000, max_length: int = 2048, mean_log: float = 5.0, sigma_log: float = 1.0
) -> LengthHistogram:
    """Make lengths of text, whose logarithm is normal.

    `mean_log` is the logarithm's mean, `sigma_log` its standard deviation.
    """
    number("mean_log", mean_log, at_least=-_MOST, at_most=_MOST)
    number("sigma_log", sigma_log, above=0, at_most=_MOST)
    with np.errstate(divide="ignore"):
        edges = np.log(np.maximum(_edges(max_length), 0))  # the first is -infinity
    shares = np.diff(_normal_cdf((edges - mean_log) / sigma_log))
    return _family("log-normal", shares, num_sequences, mean_log=mean_log, sigma_log=sigma_log)


def uniform(num_sequences: int = 1_000_000, max_length: int = 512, shortest: int = 1) -> LengthHistogram:
    """Make lengths from the shortest to the maximum, each equally often."""
    whole_number("max_length", max_length, 1, MAX_LENGTH)
    whole_number("shortest", shortest, 1, max_length)
    return _family("uniform", np.arange(1, max_length + 1) >= shortest, num_sequences, shortest=shortest)


def two_humped(
    num_sequences: int = 1_000_000,
    max_length: int = 512,
    centers: tuple[float, float] = (64.0, 384.0),
    widths: tuple[float, float] = (24.0, 48.0),
    share: float = 0.7,
) -> LengthHistogram:
    """Make lengths of two kinds of text, such as questions and articles: two normal humps.

    The first hump holds `share` of the sequences; `centers` and `widths` (standard deviations) are in tokens.
    """
    for center, width in zip(_pair("centers", centers), _pair("widths", widths), strict=True):
        number("a center", center, at_least=-_MOST, at_most=_MOST)
        number("a width", width, above=0, at_most=_MOST)
    number("share", share, at_least=0, at_most=1)
    edges = _edges(max_length)
    first_hump, second_hump = (
        np.diff(_normal_cdf((edges - center) / width)) for center, width in zip(centers, widths, strict=True)
    )
    shares = share * first_hump + (1 - share) * second_hump
    return _family("two-humped", shares, num_sequences, centers=centers, widths=widths, share=share)


def protein_like(
    num_sequences: int = 1_000_000, max_length: int = 1024, mean: float = 472.0, shape: float = 2.0
) -> LengthHistogram:
    """Make lengths of proteins, in amino acids: a gamma distribution.

    The mean of 472 for eukaryotes (320 for bacteria) and shapes from 1.5 to 3: Tiessen, Pérez-Rodríguez,
    Delaye-Arredondo, BMC Research Notes 5:85 (2012).
    """
    number("mean", mean, above=0, at_most=_MOST)
    number("shape", shape, above=0, at_most=_MOST)
    whole_number("max_length", max_length, 1, MAX_LENGTH)
    lengths = np.arange(1, max(max_length, math.ceil(60 * mean)) + 1)  # longer ones than 60 means have no weight
    log_density = (shape - 1) * np.log(lengths) - shape * lengths / mean
    density = np.exp(log_density - log_density.max())
    density[max_length - 1] = density[max_length - 1 :].sum()  # longer ones are cut to the maximum
    return _family("protein-like", density[:max_length], num_sequences, mean=mean, shape=shape)


def image_patch_like(
    num_sequences: int = 1_000_000,
    max_length: int | None = None,
    patch: int = 16,
    sides: tuple[int, int] = (64, 384),
    widest: float = 2.0,
) -> LengthHistogram:
    """Make lengths of images of many sizes and shapes, cut into square patches: the number of whole patches.

    An image has the area of a square whose side is uniform over `sides` (pixels); its width divided by its height is
    log-uniform from 1 / `widest` to `widest`. The idea: Dehghani et al., Patch n' Pack: NaViT (arXiv
    2307.06304); the numbers are ours. By default `max_length` is what the largest square gives.
    """
    whole_number("patch", patch, 1)
    low, high = _pair("sides", sides)
    low = whole_number("sides[0]", low, patch, 16_384)
    high = whole_number("sides[1]", high, low, 16_384)
    number("widest", widest, at_least=1, at_most=100)
    max_length = high**2 // patch**2 if max_length is None else max_length
    whole_number("max_length", max_length, 1, MAX_LENGTH)
    stretch = np.sqrt(widest) ** np.linspace(-1, 1, 201)  # of the width; the height shrinks by the same factor
    side = np.arange(low, high + 1)[:, None] / patch  # in patches; shape (sides, 1)
    patches = np.floor(side * stretch) * np.floor(side / stretch)  # shape (sides, stretches)
    lengths = np.clip(patches, 1, max_length).astype(np.int64)
    weights = np.bincount(lengths.ravel(), minlength=max_length + 1)[1:]
    return _family("image-patch-like", weights, num_sequences, patch=patch, sides=sides, widest=widest)


# By name, such as "log-normal"
FAMILIES: dict[str, Callable[..., LengthHistogram]] = {
    make.__name__.replace("_", "-"): make for make in (log_normal, uniform, two_humped, protein_like, image_patch_like)
}

ABOUT = {  # one line about each, for lists
    "log-normal": "text: the logarithm of the length is normal",
    "uniform": "every length from the shortest to the maximum equally often",
    "two-humped": "two kinds of text, such as questions and articles: two normal humps",
    "protein-like": "proteins, in amino acids: a gamma distribution",
    "image-patch-like": "images of many sizes and shapes cut into square patches; "
    "the length is the number of whole patches",
}


def _pair(name: str, values: Any) -> tuple[Any, Any]:
    """Return two values; raise a TypeError that names the argument if they are not two."""
    if not isinstance(values, (tuple, list, np.ndarray)) or len(values) != 2:
        raise TypeError(f"{name} must be two numbers, not {shown(values)}.")
    return values[0], values[1]


def _edges(max_length: int) -> np.ndarray:
    """Return the edges of a bin for each length from 1 to `max_length`; shape (max_length + 1,).

    The bin of length l is from l - 1/2 to l + 1/2. The first and the last bin have no end, so that no share is lost.
    """
    edges = np.arange(whole_number("max_length", max_length, 1, MAX_LENGTH) + 1) + 0.5
    edges[0], edges[-1] = -np.inf, np.inf
    return edges


def _normal_cdf(values: np.ndarray) -> np.ndarray:
    """Return for each value the probability that a standard normal variable is below it."""
    return np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in values.tolist()])


def _family(name: str, weights: np.ndarray, num_sequences: int, **parameters: object) -> LengthHistogram:
    """Make a histogram whose counts are in proportion to weights.

    Args:
        name: of the histogram.
        weights: of the lengths 1, 2, 3 …; shape (max_length,).
        num_sequences: the sum of the counts.
        parameters: of the formula, for `source`.
    """
    whole_number("num_sequences", num_sequences, 1)
    counts = np.concatenate([[0], apportion(np.asarray(weights, float), num_sequences)])
    in_words = ", ".join(f"{parameter} {value}" for parameter, value in parameters.items())
    return LengthHistogram(counts, name=name, kind="synthetic", source=f"formula: {in_words}")
