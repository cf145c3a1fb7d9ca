"""Notebook 00's race of four: the same sentences padded in two ways, packed, and packed without a mask."""

import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from packbook.figures import new_figure, percent, picture, png, publish, series, styled
from packbook.shared.glosses import wordnet_texts
from packbook.shared.segments import spoiled
from packbook.shared.two_words import two_word_batch, two_words
from packlib.batches import PackedBatch, TokenStore, tokenize, wordnet_tokenizer
from packlib.model import PackedBert

BATCH = 40  # sentences behind an update
RACED = ("sentences in a row", "slots of an update", "CPU s")  # columns of the recorded race
LEAST, MOST = 6, 64  # tokens of a sentence in the race: both words occur twice, and a run takes seconds
WAYS: dict[str, dict[str, Any]] = {  # how a run's line looks
    "padded to the maximum": {**series("unpacked"), "marker": "", "linestyle": "-", "linewidth": 5, "alpha": 0.35},
    "padded to the longest": {**series("random"), "marker": "", "linestyle": "-"},
    "packed": {**series("packed"), "marker": "", "linestyle": (0, (4, 4))},  # so that lines below it are seen
    "packed, no mask": {"color": "#777777", "linestyle": ":"},
}


def read_tokens(texts: str, numbers: np.ndarray, max_length: int) -> TokenStore:
    """Tokenize the definitions of WordNet with these numbers; longer ones are cut."""
    wordnet = wordnet_texts()
    words, examples = wordnet.definition[numbers].tolist(), wordnet.examples[numbers].tolist()
    paired = examples if texts == "wordnet-pairs" else None
    return tokenize(wordnet_tokenizer(), words, paired, None, max_length, overlong="truncate")


@torch.no_grad()
def answers(model: PackedBert, batch: PackedBatch, mask: bool = True) -> torch.Tensor:
    """Return the last hidden state of each useful token, shape (tokens, d); without the mask, as strangers spoil it."""
    return model(**spoiled(batch, mask)).hidden[batch.segment_ids > 0]


def lay_out(way: str, sentences: TokenStore, slots: int, seed: int) -> Mapping[str, Any]:
    """Return the sentences of one update as a batch: what differs between the runs, and all that does."""
    if way == "padded to the maximum":
        return two_word_batch(sentences, seed, slots, packed=False)
    if way == "padded to the longest":
        return two_word_batch(sentences, seed, int(sentences.lengths.max()), packed=False)
    packs = two_word_batch(sentences, seed, slots)
    if way == "packed, no mask":
        return {**packs, "segment_ids": (packs.segment_ids > 0).long()}  # all tokens of a row are one text
    return packs


def medians(rows: list[dict]) -> list[tuple]:
    """Return each recorded run's sentences in a row, slots, seconds, and its seconds over those of the packed run."""
    numbers_of = {way: [median(row[column] for row in rows if row["run"] == way) for column in RACED] for way in WAYS}
    return [(way, *numbers, round(numbers[-1] / numbers_of["packed"][-1], 1)) for way, numbers in numbers_of.items()]


class Race:
    """Runs that learn from the same sentences, tested every few updates on new ones, in a picture that follows them.

    Args:
        lengths: of real texts, in tokens; the sentences have lengths drawn from them, from `LEAST` to `slots`.
        slots: of a row.
        updates: of each run, from `BATCH` sentences each.
        every: updates between two tests.
        watched: whether a picture follows the runs.

    Attributes:
        points: by run, rows of (sentences learned from, seconds of computing, share of hidden words that are right).
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        slots: int,
        updates: int,
        seed: int,
        every: int = 10,
        watched: bool = True,
    ) -> None:
        self.slots, self.updates, self.seed, self.every, self.watched = slots, updates, seed, every, watched
        some = np.asarray(lengths).clip(LEAST, slots)
        self.learned, others = two_words(BATCH * updates, seed, some), two_words(200, 10**6 + seed, some)
        known = {row["input_ids"].tobytes() for row in self.learned}
        new = [i for i, row in enumerate(others) if row["input_ids"].tobytes() not in known]
        self.held_out = others.take(np.array(new))
        self.test = two_word_batch(self.held_out, seed, int(self.held_out.lengths.max()), packed=False)
        self.points: dict[str, list[tuple[int, float, float]]] = {}
        self._handle = None

    def sentences(self, way: str, model: PackedBert) -> Iterator[TokenStore]:
        """Yield the sentences of each update of a run, one of `WAYS`; tests the model in between.

        The clock counts processor time, so that other programs do not matter, and stands still during a test. It runs
        while the caller lays sentences out and learns from them.
        """
        seconds = shown = 0.0
        points = self.points[way] = [(0, 0.0, self.right(model))]
        for update in range(1, self.updates + 1):
            since = time.process_time()
            yield self.learned.take(np.arange(BATCH * (update - 1), BATCH * update))
            seconds += time.process_time() - since
            if update % self.every == 0 or update == self.updates:
                points.append((BATCH * update, seconds, self.right(model)))
                if self.watched and seconds > shown + 1:  # else drawing would hide how fast a quick run is
                    shown = seconds
                    self._show(*self.draw(f"{way}: {BATCH * update:,} of {BATCH * self.updates:,} sentences"))

    @torch.no_grad()
    def right(self, model: PackedBert) -> float:
        """Return the share of the hidden words of sentences in rows of their own that the model gets right."""
        output = model(**self.test)
        hidden = output.token_labels >= 0
        return float((output.token_logits.argmax(-1) == output.token_labels)[hidden].double().mean())

    def finish(self, name: str) -> None:
        """Leave the last picture, under `name` in a folder of figures too; the next run begins another one."""
        self._show(*self.draw(self.title()), name)
        self._handle = None

    def title(self) -> str:
        """Return a title that says what the runs so far show, and that the same runs on another day say too."""
        (_, slow, padded), (_, fast, packed) = (self.points[way][-1] for way in ("padded to the longest", "packed"))
        if "packed, no mask" in self.points:
            right = percent(self.points["packed, no mask"][-1][2], 0)
            return f"Without the mask {right} are right, with it {percent(packed, 0)}"
        if abs(padded - packed) >= 0.01:
            return f"Packed {percent(packed, 0)} are right, padded {percent(padded, 0)}"
        time = "about the same time" if slow < 1.1 * fast else "less time"  # no number: the next run has another
        return f"Packed learns the same as padded to the longest, in {time}"

    @styled()
    def draw(self, title: str) -> tuple[Figure, str]:
        """Return hidden words that are right over sentences, and over seconds, as far as the runs have come."""
        fig, axes = new_figure(1, 2, sharey=True)
        total = BATCH * self.updates
        pace = max((points[-1][1] / max(points[-1][0], 1) for points in self.points.values()), default=0.0)
        columns = {"sentences": total, "seconds of computing": max(pace * total, 1.0)}
        for column, (ax, (label, end)) in enumerate(zip(axes, columns.items(), strict=True)):
            for way in [way for way in WAYS if way in self.points]:
                data = np.array(self.points[way])
                name = f"{way}: {data[-1, 1]:.1f} s"
                ax.plot(data[:, column], 100 * data[:, 2], **WAYS[way], label=name)
            ax.set(xlim=(0, 1.02 * end), xlabel=label, ylim=(0, 104))
        axes[1].set_xlim(0, 2.1 * end)  # room for the names
        axes[1].legend(loc="lower right", fontsize=11, handlelength=1.5)
        axes[0].set_ylabel("hidden words that are right, %")
        axes[0].xaxis.set_major_formatter("{x:,.0f}")
        fig.suptitle(title, fontsize=15)
        listed = "; ".join(
            f"{way} {percent(p[-1][2], 0)} with {p[-1][0]:,} sentences in {p[-1][1]:.1f} seconds"
            for way, p in self.points.items()
        )
        return fig, f"{title}. Hidden words that are right while models train: {listed}."

    def _show(self, fig: Figure, alt: str, name: str = "") -> None:
        from IPython.display import display

        drawn = png(fig)
        data = picture(drawn, alt)
        metadata = publish(fig, drawn, alt, name) if name else {}
        if self._handle is None:
            self._handle = display(data, raw=True, metadata=metadata, display_id=True)
        else:
            self._handle.update(data, raw=True, metadata=metadata)
