"""Notebook 00's live runs: the same texts padded and packed, and a picture that follows them while they train."""

import time
from collections.abc import Callable

import numpy as np
import torch
from matplotlib.figure import Figure
from transformers import BertConfig

from packlib.batches import (
    IGNORED,
    MlmMasking,
    PackedBatch,
    PackingCollator,
    PackLoader,
    TokenStore,
    pack_lengths,
    pack_loader,
    tokenize,
    wordnet_tokenizer,
)
from packlib.model import PackedBert
from packlib.packing import Packs
from packlib.training import Recipe, evaluate
from packlib.workbook.chapters.n00_tour.texts import HELD_OUT
from packlib.workbook.chapters.shared.glosses import wordnet_texts
from packlib.workbook.chapters.shared.segments import spoiled
from packlib.workbook.figures import img, label_ends, new_figure, png, publish, series

BATCH = 32  # texts behind an update
VOCABULARY = 4000  # tokens that the tokenizer knows


def read_tokens(texts: str, numbers: np.ndarray, max_length: int) -> tuple[TokenStore, TokenStore]:
    """The tokens of WordNet's definitions with these numbers, longer ones cut; those of `HELD_OUT` texts apart."""
    wordnet = wordnet_texts()
    words, examples = wordnet.definition[numbers].tolist(), wordnet.examples[numbers].tolist()
    paired = examples if texts == "wordnet-pairs" else None
    store = tokenize(wordnet_tokenizer(), words, paired, None, max_length, overlong="truncate")
    first, held_out = np.split(np.arange(len(store)), [len(store) - HELD_OUT])
    return store.take(first), store.take(held_out)


def new_model(seed: int) -> PackedBert:
    """A small BERT to train, in float32; the same seed gives the same weights each time."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256,
        max_position_embeddings=128, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return PackedBert(config)


def frequency_loss(store: TokenStore, batches: list[PackedBatch]) -> float:
    """The loss of a model that knows how frequent each token is among the texts of `store`, and nothing else.

    Each token is counted once more than it occurs, so that none is impossible.
    """
    counts = 1 + np.bincount(store.input_ids, minlength=VOCABULARY)
    labels = [batch.labels.flatten() for batch in batches if batch.labels is not None]
    hidden = torch.cat(labels).numpy()
    hidden = hidden[hidden != IGNORED]
    return float(-np.log(counts / counts.sum())[hidden].mean())


@torch.no_grad()
def answers(model: PackedBert, batch: PackedBatch, mask: bool = True) -> torch.Tensor:
    """The last hidden state of each useful token, shape (tokens, d); without the mask, as strangers spoil it."""
    return model(**spoiled(batch, mask)).hidden[batch.segment_ids > 0]


def both_ways(store: TokenStore, packs: Packs, seed: int) -> dict[str, PackLoader]:
    """The texts padded and packed, in batches of about `BATCH` texts; the same tokens are masked in both."""
    collator = PackingCollator(packs.max_length, MlmMasking.for_tokenizer(wordnet_tokenizer(), seed))
    alone = pack_lengths(store.lengths, packs.max_length, max_sequences_per_pack=1)
    rows = max(1, round(BATCH * len(packs) / len(store)))
    return {
        "padded": pack_loader(store, alone, collator, BATCH, seed=seed),
        "packed": pack_loader(store, packs, collator, rows, seed=seed),
    }


def recipe_of(loader: PackLoader, total: int) -> Recipe:
    """A short recipe for either way: `total` texts, a tenth of them to warm up."""
    rows, packs = loader.batch_sampler.batch_size, loader.dataset.packs
    return Recipe(
        micro_batch=rows, learning_rate=0.005, total_sequences=total, warmup_sequences=total // 10,
        packing_factor=len(packs.sample_ids) / len(packs), max_length=packs.max_length,
    )  # fmt: skip


class Race:
    """Runs of `fit`, tested every few updates on texts they do not train on, in a picture that follows them.

    Attributes:
        points: by run, rows of (texts trained on, seconds of computing, loss on the held-out texts).
        batches: the held-out texts, with the same tokens hidden for all runs.
        known: the loss of a model that knows frequencies alone; a line in the picture, if it is given.
    """

    def __init__(self, total: int, held_out: TokenStore, max_length: int, every: int = 8) -> None:
        masking = MlmMasking.for_tokenizer(wordnet_tokenizer())
        packs = pack_lengths(held_out.lengths, max_length, "lpfhp")
        loader = pack_loader(held_out, packs, PackingCollator(max_length, masking), shuffle=False)
        self.batches: list[PackedBatch] = list(loader)
        self.known: float | None = None
        self.total, self.every = total, every
        self.points: dict[str, list[tuple[int, float, float]]] = {}
        self._handle = None

    def follow(self, name: str, model: PackedBert) -> Callable[[dict], None]:
        """Begin a run; returns what `fit` is to call on each update.

        The clock counts processor time, so that other programs do not matter, and stands still meanwhile.
        """
        seconds = shown = since = 0.0
        self.points[name] = points = [(0, 0.0, evaluate(model, self.batches)["mlm_loss"])]
        self._show(*self.draw(f"{name}: 0 of {self.total:,} texts"))

        def on_update(record: dict) -> None:
            nonlocal seconds, shown, since
            seconds += time.process_time() - since
            texts = record["sequences"]
            if record["update"] % self.every == 0 or texts >= self.total:
                points.append((texts, seconds, evaluate(model, self.batches)["mlm_loss"]))
                if seconds > shown + 1:  # else drawing would hide how fast a quick run is
                    shown = seconds
                    self._show(*self.draw(f"{name}: {texts:,} of {self.total:,} texts"))
            since = time.process_time()

        since = time.process_time()
        return on_update

    def finish(self, name: str) -> None:
        """Leave the last picture, under `name` in a folder of figures too."""
        times = {run: points[-1][1] for run, points in self.points.items()}
        words = ", ".join(f"{run} in {seconds:.1f} s" for run, seconds in times.items())
        fig, alt = self.draw(f"{self.total:,} texts: {words}")
        self._show(fig, alt, name)

    def draw(self, title: str) -> tuple[Figure, str]:
        """Loss over texts, and loss over seconds, as far as the runs have come."""
        fig, axes = new_figure(1, 2, sharey=True)
        pace = max((points[-1][1] / max(points[-1][0], 1) for points in self.points.values()), default=0.0)
        ends = (self.total, max(pace * self.total, 1.0))
        lowest = min(loss for points in self.points.values() for *_, loss in points)
        for ax, column, end, label in zip(axes, (0, 1), ends, ("texts", "seconds of computing"), strict=True):
            lines = {}
            for run, points in self.points.items():
                look = {**series("packed" if run == "packed" else "unpacked"), "marker": ""}
                data = np.array(points)
                lines[ax.plot(data[:, column], data[:, 2], **look)[0]] = run
                ax.plot(*data[-1, [column, 2]], marker="o", color=look["color"], clip_on=False)
            # room for the labels: else the axes would jump while it trains
            ax.set(xlim=(0, 1.36 * end), xlabel=label, ylim=(min(6.6, lowest - 0.2), 8.6))
            if self.known is not None:
                ax.axhline(self.known, color="#999999", linestyle="--", linewidth=1.5)
                ax.text(0.02 * end, self.known - 0.03, "frequencies alone", va="top", fontsize=11)
            label_ends(lines)
        axes[0].set_ylabel("loss on held-out texts")
        axes[0].xaxis.set_major_formatter("{x:,.0f}")
        fig.suptitle(title, x=0.02, ha="left", fontsize=15)
        told = "; ".join(
            f"{run} {p[0][2]:.2f} to {p[-1][2]:.2f} with {p[-1][0]:,} texts in {p[-1][1]:.1f} seconds"
            for run, p in self.points.items()
        )
        alone = "" if self.known is None else f" A model that knows frequencies alone has {self.known:.2f}."
        return fig, f"{title}. Loss on held-out texts while two runs train: {told}.{alone}"

    def _show(self, fig: Figure, alt: str, name: str = "") -> None:
        from IPython.display import display

        drawn = png(fig)
        data = {"text/html": img(drawn, alt), "text/plain": alt}
        metadata = publish(fig, drawn, alt, name) if name else {}
        if self._handle is None:
            self._handle = display(data, raw=True, metadata=metadata, display_id=True)
        else:
            self._handle.update(data, raw=True, metadata=metadata)
