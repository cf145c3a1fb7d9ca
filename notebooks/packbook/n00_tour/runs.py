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

BATCH = 40  # sentences in an update
RACED = ("sentences in a row", "slots of an update", "CPU s")  # columns of the recorded race that `medians` takes
HELD_OUT = 200  # sentences to test on
LEAST, MOST = 6, 64  # tokens of a sentence in the race: both words occur twice, and a run takes seconds
WAYS: dict[str, dict[str, Any]] = {  # how a run's line looks
    "padded to the maximum": {**series("unpacked"), "marker": "", "linestyle": "-", "linewidth": 5, "alpha": 0.35},
    "padded to the longest": {**series("random"), "marker": "", "linestyle": "-"},
    "packed": {**series("packed"), "marker": "", "linestyle": (0, (4, 4))},  # so that lines below it are seen
    "packed, no mask": {"color": "#777777", "linestyle": ":"},
}


def read_tokens(texts: str, numbers: np.ndarray, max_length: int) -> TokenStore:
    """Tokenize the glosses of WordNet with these indices; longer ones are cut to `max_length` tokens.

    Args:
        texts: "wordnet" for definitions, "wordnet-pairs" for definitions with their usage examples.
    """
    wordnet = wordnet_texts()
    definitions = wordnet.definition[numbers].tolist()
    examples = wordnet.examples[numbers].tolist() if texts == "wordnet-pairs" else None
    no_labels = None
    return tokenize(wordnet_tokenizer(), definitions, examples, no_labels, max_length, overlong="truncate")


@torch.no_grad()
def answers(model: PackedBert, batch: PackedBatch, mask: bool = True) -> torch.Tensor:
    """Return the model's last hidden state of each non-padding token, shape (tokens, d).

    Args:
        mask: whether texts in one row are kept apart; without it, tokens of other texts change the outputs.
    """
    return model(**spoiled(batch, mask)).hidden[batch.segment_ids > 0]


def lay_out(way: str, sentences: TokenStore, slots: int, seed: int) -> Mapping[str, Any]:
    """Return the sentences of one update as a batch; nothing else differs between the runs.

    Args:
        way: the name of a run, one of `WAYS`.
        slots: of a row, unless the way is "padded to the longest".
    """
    if way == "padded to the maximum":
        return two_word_batch(sentences, seed, slots, packed=False)
    if way == "padded to the longest":
        return two_word_batch(sentences, seed, int(sentences.lengths.max()), packed=False)
    packs = two_word_batch(sentences, seed, slots)
    if way == "packed, no mask":
        return {**packs, "segment_ids": (packs.segment_ids > 0).long()}  # all tokens of a row are one text
    return packs


def medians(rows: list[dict]) -> list[tuple]:
    """Summarize the recorded race, with a row for each run.

    Returns:
        Its name, the median over its seeds of each column of `RACED`, and its seconds divided by the packed run's.
    """
    medians_by_way = {}
    for way in WAYS:
        runs = [row for row in rows if row["run"] == way]
        medians_by_way[way] = [median(run[column] for run in runs) for column in RACED]
    packed_seconds = medians_by_way["packed"][-1]
    return [(way, *numbers, round(numbers[-1] / packed_seconds, 1)) for way, numbers in medians_by_way.items()]


class Race:
    """Runs that learn from the same sentences, tested every few updates on new ones, in a picture that follows them.

    Args:
        lengths: of real texts, in tokens; the sentences have lengths drawn from them, from `LEAST` to `slots`.
        slots: in a row.
        updates: number of updates in each run, each from `BATCH` sentences.
        seed: chooses the sentences.
        every: updates between two tests.
        watched: whether a picture follows the runs.

    Attributes:
        learned: the sentences that all runs learn from.
        held_out: the sentences that they are tested on; none of them is among `learned`.
        points: by run, a tuple for each test: sentences learned from, processor seconds of training, and the share of
            hidden words that are right.
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
        sentence_lengths = np.asarray(lengths).clip(LEAST, slots)
        self.learned = two_words(BATCH * updates, seed, sentence_lengths)
        candidates = two_words(HELD_OUT, 10**6 + seed, sentence_lengths)  # a seed that no training set has
        learned_ids = {row["input_ids"].tobytes() for row in self.learned}
        new = [i for i, row in enumerate(candidates) if row["input_ids"].tobytes() not in learned_ids]
        self.held_out = candidates.take(np.array(new))
        self.test = two_word_batch(self.held_out, seed, int(self.held_out.lengths.max()), packed=False)
        self.points: dict[str, list[tuple[int, float, float]]] = {}
        self._handle = None  # of the display that the picture is updated in

    def sentences(self, way: str, model: PackedBert) -> Iterator[TokenStore]:
        """Yield the sentences of each update of a run, one of `WAYS`, and test the model in between.

        The clock counts processor time, so that other programs do not matter. It runs while the caller lays sentences
        out and learns from them, and stands still during a test.
        """
        seconds = 0.0
        seconds_at_picture = 0.0
        points = self.points[way] = [(0, 0.0, self.right(model))]
        for update in range(1, self.updates + 1):
            start = time.process_time()
            yield self.learned.take(np.arange(BATCH * (update - 1), BATCH * update))
            seconds += time.process_time() - start
            if update % self.every == 0 or update == self.updates:
                points.append((BATCH * update, seconds, self.right(model)))
                if (
                    self.watched and seconds > seconds_at_picture + 1
                ):  # drawing more often would hide how fast a run is
                    seconds_at_picture = seconds
                    self._show(*self.draw(f"{way}: {BATCH * update:,} of {BATCH * self.updates:,} sentences"))

    @torch.no_grad()
    def right(self, model: PackedBert) -> float:
        """Return the share of the hidden words in the held-out sentences, one in a row, that the model gets right."""
        output = model(**self.test)
        is_hidden = output.token_labels >= 0
        is_right = output.token_logits.argmax(-1) == output.token_labels
        return float(is_right[is_hidden].double().mean())

    def finish(self, name: str) -> None:
        """Show the last picture of the runs, named `name`; later runs begin another picture."""
        self._show(*self.draw(self.title()), name)
        self._handle = None

    def title(self) -> str:
        """Return a title that says what the runs so far show, without numbers that change from day to day."""
        _, padded_seconds, padded = self.points["padded to the longest"][-1]
        _, packed_seconds, packed = self.points["packed"][-1]
        if "packed, no mask" in self.points:
            right = percent(self.points["packed, no mask"][-1][2], 0)
            return f"Without the mask {right} are right, with it {percent(packed, 0)}"
        if abs(padded - packed) >= 0.01:
            return f"Packed {percent(packed, 0)} are right, padded {percent(padded, 0)}"
        time = "about the same time" if padded_seconds < 1.1 * packed_seconds else "less time"
        return f"Packed learns the same as padded to the longest, in {time}"

    @styled()
    def draw(self, title: str) -> tuple[Figure, str]:
        """Draw the share of hidden words that are right over sentences, and over seconds, for the runs so far.

        Returns:
            The figure and its alt text.
        """
        fig, axes = new_figure(1, 2, sharey=True)
        num_sentences = BATCH * self.updates
        seconds_per_sentence = [points[-1][1] / max(points[-1][0], 1) for points in self.points.values()]
        longest_run = max(seconds_per_sentence, default=0.0) * num_sentences  # in seconds, as far as can be foreseen
        end_by_label = {"sentences": num_sentences, "seconds of computing": max(longest_run, 1.0)}
        for column, (ax, (label, end)) in enumerate(zip(axes, end_by_label.items(), strict=True)):
            for way in [way for way in WAYS if way in self.points]:
                points = np.array(self.points[way])  # sentences, seconds, share that is right
                ax.plot(points[:, column], 100 * points[:, 2], **WAYS[way], label=f"{way}: {points[-1, 1]:.1f} s")
            ax.set(xlim=(0, 1.02 * end), xlabel=label, ylim=(0, 104))
        axes[1].set_xlim(0, 2.1 * end_by_label["seconds of computing"])  # room for the names
        axes[1].legend(loc="lower right", fontsize=11, handlelength=1.5)
        axes[0].set_ylabel("hidden words that are right, %")
        axes[0].xaxis.set_major_formatter("{x:,.0f}")
        fig.suptitle(title, fontsize=15)
        ends = []
        for way, points_of_way in self.points.items():
            sentences, seconds, right = points_of_way[-1]
            ends.append(f"{way} {percent(right, 0)} with {sentences:,} sentences in {seconds:.1f} seconds")
        return fig, f"{title}. Hidden words that are right while models train: {'; '.join(ends)}."

    def _show(self, fig: Figure, alt: str, name: str = "") -> None:
        """Show a figure in place of the last one; with a `name` it is published, too."""
        from IPython.display import display

        drawn = png(fig)
        data = picture(drawn, alt)
        metadata = publish(fig, drawn, alt, name) if name else {}
        if self._handle is None:
            self._handle = display(data, raw=True, metadata=metadata, display_id=True)
        else:
            self._handle.update(data, raw=True, metadata=metadata)
