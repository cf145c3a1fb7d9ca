"""Samples with two budgets, tokens and patches: packs by `pack_pairs`, beside the rules of packers in use.

`python data/record.py pairs` writes data/benchmarks/pairs.csv, and `python data/record.py pairs million` writes
pairs_million.csv, where ten times as many samples are packed in windows, beside next fit alone. The samples are
synthetic. Budgets, and what an image costs, are those of public recipes; the mixture of images and the widths of all
distributions are assumptions.

The peers are written here as plain functions, after their projects' descriptions; none of their code was run.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.table import record, timed
from packlib.arguments import one_of
from packlib.packing import pack_pairs

PAIRS = 100_000  # that are drawn; some recipes leave out those that no row holds


@dataclass(frozen=True)
class Drawn:
    """Samples: what each takes of both budgets of a row, and these budgets."""

    tokens: np.ndarray
    patches: np.ndarray
    max_length: int
    max_patches: int

    def fitting(self, also: np.ndarray | bool = True) -> "Drawn":
        kept = (self.tokens <= self.max_length) & (self.patches <= self.max_patches) & also
        return Drawn(self.tokens[kept], self.patches[kept], self.max_length, self.max_patches)


# The draws


class Images:
    """Texts with images: none in 30 % of the samples, 2 to 10 in 6 %, and one in each of the others.

    30 % of the images are pages with a long side of 1,200 to 2,400 pixels, 50 % photos of about 700 x 525, and 20 %
    small pictures.

    Attributes:
        words: the tokens of each sample's text.
        number: its images.
        sample: for each image the sample that has it.
        width, height: of each image, in pixels.
    """

    def __init__(self, rng: np.random.Generator, samples: int):
        chance = rng.random(samples)
        self.number = np.where(chance < 0.3, 0, 1)
        several = chance > 0.94
        self.number[several] = rng.integers(2, 11, several.sum())
        self.words = np.maximum(12, rng.lognormal(np.log(230), 1.0, samples)).astype(np.int64)
        self.sample = np.repeat(np.arange(samples), self.number)
        images = len(self.sample)
        kind = rng.choice(3, images, p=[0.3, 0.5, 0.2])
        page, photo = rng.uniform(1200, 2400, images), rng.lognormal(np.log(700), 0.35, images)
        long_side = np.select([kind == 0, kind == 1], [page, photo], rng.uniform(224, 512, images))
        of_page, of_others = rng.uniform(0.65, 0.8, images), rng.lognormal(np.log(0.75), 0.2, images).clip(0.3, 1)
        short_side = long_side * np.where(kind == 0, of_page, of_others)
        upright = rng.random(images) < 0.5
        self.width = np.where(upright, short_side, long_side)
        self.height = np.where(upright, long_side, short_side)

    def tiles(self, side: float) -> np.ndarray:
        """Return tiles of this side that cover each image."""
        return np.ceil(self.width / side) * np.ceil(self.height / side)

    def for_each_sample(self, of_images: np.ndarray) -> np.ndarray:
        return np.bincount(self.sample, of_images, len(self.words)).astype(np.int64)


def internvl(rng: np.random.Generator, samples: int) -> Drawn:
    """Draw images of 1 to 12 tiles of 256 tokens, fewer if the sample has several, and a thumbnail for several."""
    images = Images(rng, samples)
    share = np.maximum(1, 48 // np.maximum(images.number, 1))[images.sample]
    tiles = np.rint(images.width / 448) * np.rint(images.height / 448)
    tiles = np.clip(tiles, 1, np.minimum(12, np.maximum(1, share - 1)))
    tiles = images.for_each_sample(np.where(tiles > 1, tiles + 1, tiles))
    return Drawn(images.words + 256 * tiles, tiles, 16_384, 48)


def molmo2(rng: np.random.Generator, samples: int, max_crops: int = 125) -> Drawn:
    """Draw images of at most 12 crops of 144 tokens after pooling, or 4 if the sample has several, and the whole."""
    images = Images(rng, samples)
    most = np.where(images.number[images.sample] > 1, 4, 12)
    crops = images.for_each_sample(1 + np.clip(images.tiles(266), 1, most))
    return Drawn(images.words + 144 * crops, crops, 16_384, max_crops).fitting()


def molmo2_25_crops(rng: np.random.Generator, samples: int) -> Drawn:
    return molmo2(rng, samples, 25)


def video(rng: np.random.Generator, samples: int) -> Drawn:
    """Draw 45 % videos of up to 125 frames of 83 tokens, 40 % a last image of crops as of `molmo2`, 15 % text alone."""
    images = Images(rng, samples)
    kind = rng.choice(3, samples, p=[0.45, 0.4, 0.15])
    frames = np.minimum(125, 2 * rng.lognormal(np.log(30), 0.7, samples)).astype(np.int64)
    crops = np.zeros(samples, np.int64)
    crops[images.sample] = 1 + np.clip(images.tiles(266), 1, 12)
    seen = np.select([kind == 0, kind == 1], [frames, crops], 0)
    words = images.words * np.select([kind == 0, kind == 2], [3, 4], 1)
    return Drawn(words + np.where(kind == 0, 83, 144) * seen, seen, 16_384, 125).fitting()


def nanovlm(rng: np.random.Generator, samples: int) -> Drawn:
    """Draw at most 4 images a sample, of 64 tokens a tile, at most 4 x 4 tiles and a thumbnail.

    The second budget counts images.
    """
    images = Images(rng, samples)
    tiles = np.clip(np.ceil(images.width / 512), 1, 4) * np.clip(np.ceil(images.height / 512), 1, 4)
    tokens = images.words + images.for_each_sample(64 * np.where(tiles > 1, tiles + 1, 1))
    return Drawn(tokens, images.number, 4_096, 18).fitting((images.number <= 4) & (tokens < 4_096))


def qwen(rng: np.random.Generator, samples: int) -> Drawn:
    """Return images of their native size: 28 x 28 pixels are a token, made of 4 patches."""
    images = Images(rng, samples)
    seen = images.for_each_sample(np.clip(images.tiles(28), 4, 4_096))
    return Drawn(images.words + seen, 4 * seen, 32_768, 49_152).fitting()


def equally_scarce(rng: np.random.Generator, samples: int) -> Drawn:
    """Return the samples of `qwen`, where the budget of patches is such that both sums need the same number of rows."""
    drawn = qwen(rng, samples)
    share = drawn.patches.sum() / drawn.tokens.sum()
    budget = max(int(share * drawn.max_length), int(drawn.patches.max()))
    return Drawn(drawn.tokens, drawn.patches, drawn.max_length, budget)


def translate(rng: np.random.Generator, samples: int) -> Drawn:
    """Return the sentences and their translations: the second budget counts the tokens of the target."""
    source = np.maximum(2, rng.lognormal(np.log(24), 0.65, samples))
    target = np.maximum(2, source * rng.lognormal(np.log(1.05), 0.25, samples))
    return Drawn(source.astype(np.int64), target.astype(np.int64), 25_000, 25_000)


def large(rng: np.random.Generator, samples: int) -> Drawn:
    """Draw 5 to 60 % of a row in both budgets, and the more of one the less of the other: the hard case."""
    of_tokens = rng.uniform(0.05, 0.6, samples)
    of_patches = (0.65 - of_tokens + rng.normal(0, 0.08, samples)).clip(0.05, 0.6)
    return Drawn((of_tokens * 16_384).astype(np.int64), (of_patches * 4_096).astype(np.int64), 16_384, 4_096)


DRAWS: list[Callable[[np.random.Generator, int], Drawn]] = [
    internvl,
    molmo2,
    molmo2_25_crops,
    video,
    nanovlm,
    qwen,
    equally_scarce,
    translate,
    large,
]


# The rules of others: each returns how many rows it takes


def next_fit(drawn: Drawn) -> int:
    """Fill rows in the order of the data; a row that has no room for the next sample is closed."""
    rows, tokens, patches = 1, 0, 0
    for of_tokens, of_patches in zip(drawn.tokens.tolist(), drawn.patches.tolist(), strict=True):
        if tokens + of_tokens > drawn.max_length or patches + of_patches > drawn.max_patches:
            rows, tokens, patches = rows + 1, 0, 0
        tokens += of_tokens
        patches += of_patches
    return rows


def first_fit(drawn: Drawn, max_patches: int | None = None) -> np.ndarray:
    """Return the row of each sample, by first fit from many tokens to few; with another budget of patches, if given."""
    room_tokens, room_patches = np.empty(0), np.empty(0)
    row_of = np.empty(len(drawn.tokens), np.int64)
    open_rows, opened, fewest = np.empty(0, np.int64), 0, drawn.tokens.min()
    for step, sample in enumerate(np.argsort(-drawn.tokens, kind="stable").tolist()):
        if step % 512 == 0:
            live = room_tokens >= fewest
            room_tokens, room_patches, open_rows = room_tokens[live], room_patches[live], open_rows[live]
        has_room = (room_tokens >= drawn.tokens[sample]) & (room_patches >= drawn.patches[sample])
        row = int(has_room.argmax()) if has_room.any() else len(open_rows)
        if row == len(open_rows):
            room_tokens = np.append(room_tokens, drawn.max_length)
            room_patches = np.append(room_patches, max_patches or drawn.max_patches)
            open_rows, opened = np.append(open_rows, opened), opened + 1
        room_tokens[row] -= drawn.tokens[sample]
        room_patches[row] -= drawn.patches[sample]
        row_of[sample] = open_rows[row]
    return row_of


def emptiest_row(drawn: Drawn, rows_of_a_buffer: int = 64) -> int:
    """Pack as nanoVLM: of a buffer of 64 rows' tokens, many tokens first, each into the emptiest row with room."""
    buffer = np.cumsum(drawn.tokens) // (drawn.max_length * rows_of_a_buffer)
    rows = 0
    for first, end in zip(
        *(np.searchsorted(buffer, np.unique(buffer), side) for side in ("left", "right")), strict=True
    ):
        tokens, patches = drawn.tokens[first:end], drawn.patches[first:end]
        number = -(-int(tokens.sum()) // drawn.max_length) + 5  # knapsacks at the start; the empty ones are dropped
        used_tokens, used_patches = np.zeros(number), np.zeros(number)
        for sample in np.argsort(-tokens, kind="stable").tolist():
            has_room = used_tokens + tokens[sample] <= drawn.max_length
            has_room &= used_patches + patches[sample] <= drawn.max_patches
            row = int(np.where(has_room, used_tokens, np.inf).argmin()) if has_room.any() else len(used_tokens)
            if row == len(used_tokens):
                used_tokens, used_patches = np.append(used_tokens, 0), np.append(used_patches, 0)
            used_tokens[row] += tokens[sample]
            used_patches[row] += patches[sample]
        rows += int((used_tokens > 0).sum())
    return rows


def buffer_of_48(drawn: Drawn, weight: float, size: int = 48) -> int:
    """Pack as OLMo-core: the most valuable subset of a full buffer is a row, by sums on a grid, rounded up.

    The grid has 512 x 128 cells. A sample is worth its tokens plus `weight` for each patch.
    """
    unit_tokens, unit_patches = max(1, drawn.max_length // 512), max(1, drawn.max_patches // 128)
    across, down = -(-drawn.tokens // unit_tokens), -(-drawn.patches // unit_patches)
    width, height = -(-drawn.max_length // unit_tokens), -(-drawn.max_patches // unit_patches)
    worth = drawn.tokens + weight * drawn.patches
    best = np.zeros((size + 1, width + 1, height + 1), np.float32)
    buffer, rows = list[int](), 0

    def take_a_row() -> None:
        for at, sample in enumerate(buffer, 1):
            x, y = across[sample], down[sample]
            best[at] = best[at - 1]
            with_it = best[at - 1, : width + 1 - x, : height + 1 - y] + np.float32(worth[sample])
            np.maximum(best[at, x:, y:], with_it, out=best[at, x:, y:])
        x, y, taken = width, height, []
        for at in range(len(buffer), 0, -1):
            if best[at, x, y] != best[at - 1, x, y]:
                taken.append(at - 1)
                x, y = x - across[buffer[at - 1]], y - down[buffer[at - 1]]
        for at in taken or [len(buffer) - 1]:
            del buffer[at]

    for sample in range(len(drawn.tokens)):
        if across[sample] >= width:
            rows += 1  # a sample that fills the grid is a row of its own
            continue
        if len(buffer) == size:
            take_a_row()
            rows += 1
        buffer.append(sample)
    while buffer:
        take_a_row()
        rows += 1
    return rows


def rows_over_the_second_budget(drawn: Drawn) -> float:
    """Share of the rows that break the second budget where first fit counts tokens alone."""
    row_of = first_fit(drawn, max_patches=int(drawn.patches.sum()) + 1)
    return float((np.bincount(row_of, drawn.patches) > drawn.max_patches).mean())


def packed(draw: Callable[[np.random.Generator, int], Drawn], drawn: Drawn) -> dict:
    """Return what `pack_pairs` makes of the samples of a draw, and how long it takes."""
    packs, seconds = timed(lambda: pack_pairs(drawn.tokens, drawn.patches, drawn.max_length, drawn.max_patches))
    return {
        "draw": draw.__name__.replace("_", " "),
        "samples": len(drawn.tokens),
        "scarcer": packs.scarcer,
        "at least": packs.lower_bound,
        "pack_pairs": len(packs),
        "above": f"{len(packs) / packs.lower_bound - 1:.2%}",
        "CPU s": f"{seconds:.1f}",
    }


def one_draw(draw: Callable[[np.random.Generator, int], Drawn], samples: int) -> dict:
    drawn = draw(np.random.default_rng([0, samples]), samples)
    row = packed(draw, drawn)
    least = row["at least"]
    for name, peer in PEERS.items():
        rows = peer(drawn) if least * 48 > len(drawn.tokens) or name != BUFFER else None
        row[name] = "" if rows is None else f"{rows} ({rows / least - 1:.2%})"
    return row | {TOKENS_ALONE: f"{rows_over_the_second_budget(drawn):.1%}"}


BUFFER, TOKENS_ALONE = "OLMo-core's buffer of 48", "first fit of tokens alone, rows over the second budget"
PEERS: dict[str, Callable[[Drawn], int]] = {
    "next fit": next_fit,
    "first fit": lambda drawn: int(first_fit(drawn).max()) + 1,
    "nanoVLM's rule": emptiest_row,
    BUFFER: lambda drawn: min(buffer_of_48(drawn, weight) for weight in (1.0, 30.0)),  # as Molmo2 sets it: 30
}


def in_windows(draw: Callable[[np.random.Generator, int], Drawn]) -> dict:
    """Return a million samples, which `pack_pairs` packs in windows; those that no row holds are left out."""
    drawn = draw(np.random.default_rng([0, 10 * PAIRS]), 10 * PAIRS).fitting()
    row, rows = packed(draw, drawn), next_fit(drawn)
    return row | {"next fit": f"{rows} ({rows / row['at least'] - 1:.2%})"}


def main(part: str = "") -> None:
    """Record all draws, or a million samples of each but the hard case. Of the hard case there are fewer samples.

    A buffer of 48 fills no row that takes more samples: there it is left out.
    """
    if part:
        one_of("part", part, ["million"])
        rows = (in_windows(draw) for draw in DRAWS if draw is not large)
        record("pairs_million.csv", rows, "python data/record.py pairs million", ("numpy", "highspy"))
        return
    work = [(draw, PAIRS // 10 if draw is large else PAIRS) for draw in DRAWS]
    record("pairs.csv", (one_draw(*one) for one in work), "python data/record.py pairs", ("numpy", "highspy"))
