"""Notebook 00's race: the same sentences padded, packed, and packed without a mask, in a picture that follows them."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from packbook.figures import label_ends, new_figure, percent, picture, png, publish, series
from packbook.shared.glosses import wordnet_texts
from packbook.shared.segments import spoiled
from packbook.shared.two_words import two_word_batch, two_words
from packlib.batches import PackedBatch, TokenStore, tokenize, wordnet_tokenizer
from packlib.model import PackedBert

BATCH = 40  # sentences behind an update
WAYS: dict[str, dict[str, Any]] = {  # how a run's line looks
    "padded": {**series("unpacked"), "marker": ""},
    "packed": {**series("packed"), "marker": "", "linestyle": (0, (3, 3))},  # so that a line below it is seen
    "no mask": {"color": "#777777", "linestyle": ":"},
}


def read_tokens(texts: str, numbers: np.ndarray, max_length: int) -> TokenStore:
    """The tokens of WordNet's definitions with these numbers, longer ones cut."""
    wordnet = wordnet_texts()
    words, examples = wordnet.definition[numbers].tolist(), wordnet.examples[numbers].tolist()
    paired = examples if texts == "wordnet-pairs" else None
    return tokenize(wordnet_tokenizer(), words, paired, None, max_length, overlong="truncate")


@torch.no_grad()
def answers(model: PackedBert, batch: PackedBatch, mask: bool = True) -> torch.Tensor:
    """The last hidden state of each useful token, shape (tokens, d); without the mask, as strangers spoil it."""
    return model(**spoiled(batch, mask)).hidden[batch.segment_ids > 0]


class Race:
    """Runs that learn from the same sentences, tested every few updates on new ones, in a picture that follows them.

    Args:
        updates: of each run, from `BATCH` sentences each.
        every: updates between two tests.

    Attributes:
        points: by run, rows of (sentences learned from, seconds of computing, share of hidden words that are right).
    """

    def __init__(self, updates: int, seed: int, every: int = 10) -> None:
        self.updates, self.seed, self.every = updates, seed, every
        self.learned, others = two_words(BATCH * updates, seed), two_words(400, 10**6 + seed)
        known = {row["input_ids"].tobytes() for row in self.learned}
        new = [i for i, row in enumerate(others) if row["input_ids"].tobytes() not in known]
        self.held_out = two_word_batch(others.take(np.array(new)), seed, slots=16, packed=False)
        self.points: dict[str, list[tuple[int, float, float]]] = {}
        self._handle = None

    def batches(self, name: str, model: PackedBert) -> Iterator[dict]:
        """The fields of one batch for each update, laid out as `name` in `WAYS` says; tests the model in between.

        The clock counts processor time, so that other programs do not matter, and stands still during a test.
        """
        seconds = shown = 0.0
        points = self.points[name] = [(0, 0.0, self.right(model))]
        for update in range(1, self.updates + 1):
            since = time.process_time()
            sentences = self.learned.take(np.arange(BATCH * (update - 1), BATCH * update))
            yield spoiled(two_word_batch(sentences, self.seed, packed=name != "padded"), mask=name != "no mask")
            seconds += time.process_time() - since
            if update % self.every == 0 or update == self.updates:
                points.append((BATCH * update, seconds, self.right(model)))
                if seconds > shown + 1:  # else drawing would hide how fast a quick run is
                    shown = seconds
                    self._show(*self.draw(f"{name}: {BATCH * update:,} of {BATCH * self.updates:,} sentences"))

    @torch.no_grad()
    def right(self, model: PackedBert) -> float:
        """The share of the hidden words of sentences in rows of their own that the model gets right."""
        said = model(**self.held_out)
        there = said.token_labels >= 0
        return float((said.token_logits.argmax(-1) == said.token_labels)[there].double().mean())

    def finish(self, name: str, mark: Callable[..., None] | None = None) -> None:
        """Leave the last picture, under `name` in a folder of figures too; the next run begins another one.

        Args:
            mark: draws the guess at what is right without a mask.
        """
        (_, slow, padded), (_, fast, packed) = (self.points[run][-1] for run in ("padded", "packed"))
        what = "what" if abs(padded - packed) < 0.01 else "about what"
        title = f"Packed learns {what} padded learns, {slow / fast:.1f} times as fast"
        if "no mask" in self.points:
            right = percent(self.points["no mask"][-1][2], 0)
            title = f"Without the mask {right} are right, with it {percent(packed, 0)}"
        fig, alt = self.draw(title)
        if mark:
            mark(fig.axes[0], "unmasked", "y")
        self._show(fig, alt, name)
        self._handle = None

    def draw(self, title: str) -> tuple[Figure, str]:
        """Hidden words that are right over sentences, and over seconds, as far as the runs have come."""
        fig, axes = new_figure(1, 2, sharey=True)
        total = BATCH * self.updates
        pace = max((points[-1][1] / max(points[-1][0], 1) for points in self.points.values()), default=0.0)
        columns = {"sentences": total, "seconds of computing": max(pace * total, 1.0)}
        for column, (ax, (label, end)) in enumerate(zip(axes, columns.items(), strict=True)):
            lines = {}
            for run, points in self.points.items():
                data = np.array(points)
                lines[ax.plot(data[:, column], 100 * data[:, 2], **WAYS[run])[0]] = run
            ax.set(xlim=(0, 1.4 * end), xlabel=label, ylim=(0, 104))  # room for the labels
            label_ends(lines)
        axes[0].set_ylabel("hidden words that are right, %")
        axes[0].xaxis.set_major_formatter("{x:,.0f}")
        fig.suptitle(title, x=0.02, ha="left", fontsize=15)
        listed = "; ".join(
            f"{run} {percent(p[-1][2], 0)} with {p[-1][0]:,} sentences in {p[-1][1]:.1f} seconds"
            for run, p in self.points.items()
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
