"""Notebook 05: attention that keeps the sequences of a pack apart."""

import warnings
from functools import cache
from itertools import pairwise
from timeit import repeat

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import BertConfig, GPT2Config

from packlib.batches import PackedBatch, TokenStore, collate, pack_lengths
from packlib.model import PackedBert, PackedCausal, per_sequence
from packlib.model.attention import additive_mask, allowed_pairs, block_mask, cumulative_lengths
from packlib.workbook.exercises import Exercise, Exercises
from packlib.workbook.explorers import Explorer, choice, slider
from packlib.workbook.figures import INK, OKABE_ITO, PADDING, new_figure, percent, series
from packlib.workbook.parameters import Dataset, Whole

PARAMETERS = {"dataset": Dataset(), "layers": Whole(1, 6)}
OWN, STRANGER = OKABE_ITO[0], OKABE_ITO[1]  # pairs within a sequence, pairs across
TILE = 128  # FlexAttention decides about 128 × 128 pairs at once


@cache
def small_bert(layers: int = 2, seed: int = 0) -> PackedBert:
    """A BERT of width 64 with random weights, in float64: small enough to run and compare exactly."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=4000, hidden_size=64, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=128, initializer_range=0.1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return PackedBert(config).double()


@cache
def small_gpt(layers: int = 2, seed: int = 0) -> PackedCausal:
    """The same for a model that only looks back."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": 4000, "n_positions": 128, "n_embd": 64, "n_layer": layers, "n_head": 4}
    off = {"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "bos_token_id": 2, "eos_token_id": 3}
    return PackedCausal(GPT2Config(initializer_range=0.1, **sizes, **off)).double()


def spoiled(batch: PackedBatch, mask: bool = True, restart: bool = True) -> dict:
    """The batch as a model reads it that lacks the block-diagonal mask, or the restart of positions."""
    slots = torch.arange(batch.max_length).expand_as(batch.input_ids)
    return {
        **batch,
        "segment_ids": batch.segment_ids if mask else (batch.segment_ids > 0).long(),  # hides padding only
        "position_ids": batch.position_ids if restart else slots,
    }


def influence(model: PackedBert, batch: PackedBatch, mask: bool = True, restart: bool = True) -> np.ndarray:
    """How much each sequence's loss (rows) moves with each sequence's embeddings (columns); shape (S, S)."""
    fields = spoiled(batch, mask, restart)
    embeddings = model.get_input_embeddings()(fields.pop("input_ids")).detach().requires_grad_()
    losses, _ = per_sequence(model(**fields, inputs_embeds=embeddings), batch)
    rows = []
    for loss in losses:
        (gradient,) = torch.autograd.grad(loss, embeddings, retain_graph=True)
        useful = gradient[batch.segment_ids > 0]  # shape (tokens, d), sequence after sequence
        rows.append([part.norm().item() for part in useful.split(batch.lengths.tolist())])
    return np.array(rows)


def with_dense_mask(query: Tensor, key: Tensor, value: Tensor, segment_ids: Tensor, causal: bool) -> Tensor:
    """Attention within sequences; query, key, value and the result have the shape (B, heads, T, d)."""
    mask = additive_mask(segment_ids, causal, query.dtype)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask)


def with_block_mask(query: Tensor, key: Tensor, value: Tensor, segment_ids: Tensor, causal: bool) -> Tensor:
    with warnings.catch_warnings(action="ignore"):  # it wants to be compiled, which pays on a GPU
        return flex_attention(query, key, value, block_mask=block_mask(segment_ids, causal))


def with_bounds(query: Tensor, key: Tensor, value: Tensor, segment_ids: Tensor, causal: bool) -> Tensor:
    bounds, _ = cumulative_lengths(segment_ids)
    flat = [x.transpose(0, 1).flatten(1, 2) for x in (query, key, value)]  # (heads, B·T, d)
    documents = [
        scaled_dot_product_attention(*(x[:, start:end] for x in flat), is_causal=causal)
        for start, end in pairwise(bounds.tolist())
    ]
    return torch.cat(documents, dim=1).unflatten(1, segment_ids.shape).transpose(0, 1)


WAYS = {"dense mask": with_dense_mask, "block mask": with_block_mask, "bounds": with_bounds}
LENDERS = ("maximum", "megabatches", "packed")  # lend their colors
COLORS = {form: series(name)["color"] for form, name in zip(WAYS, LENDERS, strict=True)}
WORK = ListedColormap(["#f4f4f4", STRANGER, OWN])  # pairs that are left out, computed in vain, needed


def milliseconds(form: str, segment_ids: Tensor) -> float:
    """Forward and backward through one attention of 4 heads of width 32, the best of three."""
    query, key, value = torch.randn(3, len(segment_ids), 4, segment_ids.shape[1], 32, requires_grad=True)
    runs = repeat(
        lambda: WAYS[form](query, key, value, segment_ids, False).sum().backward(), number=1, repeat=3
    )
    return 1000 * min(runs)


def example_packs(lengths: np.ndarray, max_length: int) -> Tensor:
    """The segment ids of packs of sequences of these lengths, shape (B, T)."""
    packs, tokens = pack_lengths(lengths, max_length, "lpfhp"), int(lengths.sum())
    offsets, labels = np.concatenate([[0], np.cumsum(lengths)]), np.full(len(lengths), -100)
    store = TokenStore(np.ones(tokens, np.uint8), np.zeros(tokens, np.uint8), offsets, labels)
    return collate(store.take(packs.sample_ids), np.diff(packs.offsets), max_length).segment_ids


def pairs_computed(segment_ids: Tensor) -> dict[str, float]:
    """Query-key pairs that each form of the mask computes, for one pair within a sequence."""
    packs, slots = segment_ids.shape
    needed = tiles = within = 0
    for part in segment_ids.split(max(1, 2**24 // slots**2)):  # the block mask tries every pair
        mask = block_mask(part)
        tiles += int(mask.kv_num_blocks.sum() + mask.full_kv_num_blocks.sum())
        within += int(cumulative_lengths(part)[0].long().diff().square().sum())
        needed += int((allowed_pairs(part) & (part > 0)[:, None]).sum())
    computed = (packs * slots**2, tiles * min(TILE, slots) ** 2, within)
    return {form: pairs / needed for form, pairs in zip(WAYS, computed, strict=True)}


# Figures


def spans(segment_ids: Tensor) -> list[tuple[str, int, int]]:
    """Name, first slot and end of each segment of one pack: A, B, C, …, and "pad"."""
    ids, counts = segment_ids.unique_consecutive(return_counts=True)
    ends = counts.cumsum(0).tolist()
    names = [chr(64 + i) if i else "pad" for i in ids.tolist()]
    return [(name, end - count, end) for name, end, count in zip(names, ends, counts.tolist(), strict=True)]


def draw_mask(ax: Axes, segment_ids: Tensor, allowed: Tensor, title: str) -> None:
    """Which query (row) may look at which key (column): blue within a sequence, red and crossed to a stranger."""
    own = allowed_pairs(segment_ids[None])[0]
    real = (segment_ids > 0)[:, None] & (segment_ids > 0)[None]
    picture = np.full((*allowed.shape, 3), to_rgb("#f4f4f4"))
    for where, color in (
        (allowed & own & real, OWN),
        (allowed & ~own, STRANGER),
        (allowed & own & ~real, PADDING),
    ):
        picture[where.numpy()] = to_rgb(color)
    ax.imshow(picture)
    rows, columns = (allowed & ~own).nonzero().numpy().T
    ax.plot(columns, rows, color="white", marker="x", markersize=4, linestyle="", markeredgewidth=1)
    parts = spans(segment_ids)
    for _, start, _ in parts[1:]:
        ax.axhline(start - 0.5, color=INK, linestyle="-", linewidth=1)
        ax.axvline(start - 0.5, color=INK, linestyle="-", linewidth=1)
    middles, names = [(start + end - 1) / 2 for _, start, end in parts], [name for name, _, _ in parts]
    ax.set_xticks(middles, names)
    ax.set_yticks(middles, names)
    ax.set_title(title, fontsize=13)
    ax.tick_params(length=0)


def draw_influence(ax: Axes, matrix: np.ndarray, title: str) -> None:
    """Each row in percent of its sum; an exact zero is white and says 0, so that the least leak is seen."""
    shares = 100 * matrix / matrix.sum(1, keepdims=True)
    ax.imshow(np.ma.masked_equal(shares, 0), vmin=0, vmax=100)
    for (row, column), share in np.ndenumerate(shares):
        color = "white" if 0 < share < 50 else INK
        ax.text(column, row, f"{share:.0f}", ha="center", va="center", color=color, fontsize=11)
    names = [chr(65 + i) for i in range(len(matrix))]
    ax.set_xticks(range(len(names)), names)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="embeddings of", ylabel="loss of")
    ax.set_title(title, fontsize=13, pad=6)
    ax.set_anchor("N")  # the label below stays inside the figure
    ax.tick_params(length=0)


class LeakExplorer(Explorer):
    """Lengths, direction, mask and positions against what each sequence's answers become."""

    title = "What reaches a sequence from outside?"

    def controls(self):
        return {
            "first": slider("Tokens of A", 1, 8, value=6),
            "second": slider("Tokens of B", 1, 8, value=4),
            "third": slider("Tokens of C (0: none)", 0, 8, value=3),
            "causal": choice("Attention", [("bidirectional", False), ("causal", True)], False),
            "mask": choice("Mask", [("within each sequence", True), ("padding only", False)], False),
            "restart": choice("Positions", [("restart", True), ("run on", False)], True),
        }

    def draw(self, first, second, third, causal, mask, restart) -> tuple[Figure, str]:
        lengths = [n for n in (first, second, third) if n]
        real = sum(lengths)
        ids = torch.repeat_interleave(torch.arange(1, len(lengths) + 1), torch.tensor(lengths))
        ids = pad(ids, (0, 2))[None]
        tokens = (5 + 37 * torch.arange(real + 2))[None] * (ids > 0)
        batch, model = PackedBatch(input_ids=tokens, segment_ids=ids), small_gpt() if causal else small_bert()
        fields = spoiled(batch, mask, restart)
        inputs = {"input_ids": tokens, **({} if causal else {"token_type_ids": batch.token_type_ids})}
        with torch.no_grad():
            right = model.encode(ids, batch.position_ids, **inputs)
            got = model.encode(fields["segment_ids"], fields["position_ids"], **inputs)
        change = ((got - right).norm(dim=-1) / right.norm(dim=-1))[0].numpy().round(9)[:real]
        allowed = allowed_pairs(fields["segment_ids"], causal)[0]
        outside, top = int((allowed & ~allowed_pairs(ids)[0]).sum()), max(100 * change.max(), 1)

        fig, (left, axis) = new_figure(1, 2, width_ratios=(3, 4))
        draw_mask(left, ids[0], allowed, f"{outside} pairs of strangers")
        axis.bar(range(real), 100 * change, color=STRANGER)
        worst = {}
        for name, start, end in spans(ids[0])[: len(lengths)]:
            worst[name] = percent(change[start:end].max(), 0)
            axis.axvline(end - 0.5, color=INK, linestyle="-", linewidth=1)
            axis.text((start + end - 1) / 2, 1.03 * top, f"{name}: {worst[name]}", ha="center", fontsize=11)
        axis.set_xticks(range(real), fields["position_ids"][0, :real].tolist(), fontsize=10)
        axis.set(xlabel="position of the token", ylabel="change of its answer, %", ylim=(0, 1.12 * top))
        axis.set_title("Not as if alone" if change.any() else "As if alone")
        return fig, (
            f"Sequences of {', '.join(map(str, lengths))} tokens, {'causal' if causal else 'bidirectional'}, "
            f"mask {'within each sequence' if mask else 'of padding only'}, "
            f"positions {'restart' if restart else 'run on'}: {int(allowed.sum())} pairs allowed, "
            f"{outside} of them between strangers. Largest change of an answer: "
            f"{', '.join(f'{name} {change}' for name, change in worst.items())}."
        )  # fmt: skip


# Exercises


def positions(segment_ids):
    """The place of each token in its own sequence: [1, 1, 2, 2, 2, 0] to [0, 1, 0, 1, 2, 0]."""
    return [0 if not s else segment_ids[:i].count(s) for i, s in enumerate(segment_ids)]


def may_look(segment_ids, causal):
    """Rows of True and False: may query (row) look at key (column)? Padding counts as one more sequence."""
    slots = range(len(segment_ids))
    return [[segment_ids[q] == segment_ids[k] and (k <= q or not causal) for k in slots] for q in slots]


def bounds(packs):
    """Where each segment begins when all packs are laid end to end, and the number of slots at the end."""
    starts, slots = [], 0
    for pack in packs:
        starts += [slots + i for i, s in enumerate(pack) if i == 0 or s != pack[i - 1]]
        slots += len(pack)
    return [*starts, slots]


EXERCISES = Exercises([
    Exercise(
        "positions", positions,
        cases=(([1],), ([1, 1],), ([1, 2],), ([1, 1, 2, 2, 2, 0],), ([1, 2, 2, 3, 3, 3, 0, 0],)),
        wrong={
            "runs on": lambda segment_ids: [i if s else 0 for i, s in enumerate(segment_ids)],
            "starts at 1": lambda segment_ids: [position + 1 for position in positions(segment_ids)],
            "counts the padding": lambda segment_ids: [segment_ids[:i].count(s) for i, s in enumerate(segment_ids)],
        },
        hint="count the earlier slots with the same segment id.",
    ),
    Exercise(
        "may_look", may_look,
        cases=(([1], False), ([1, 2], False), ([1, 1], True), ([1, 0], False), ([1, 1, 2, 2, 2, 0, 0], True)),
        wrong={
            "the padding mask": lambda segment_ids, causal: [[s > 0 for s in segment_ids]] * len(segment_ids),
            "forgets causal": lambda segment_ids, causal: may_look(segment_ids, False),
            "looks ahead": lambda segment_ids, causal: np.transpose(may_look(segment_ids, causal)).tolist(),
            "empty rows for padding": lambda segment_ids, causal: [
                [ok and s > 0 for ok in row]
                for s, row in zip(segment_ids, may_look(segment_ids, causal), strict=True)
            ],
        },
        hint="two slots see each other if their segment ids are equal; causal also asks that the key is not later.",
    ),
    Exercise(
        "bounds", bounds,
        cases=(([[1]],), ([[1, 1, 2]],), ([[1, 2, 0]],), ([[1, 1], [1, 1]],), ([[1, 2, 2], [1, 1, 0], [1, 0, 0]],)),
        wrong={
            "lengths, not bounds": lambda packs: np.diff(bounds(packs)).tolist(),
            "forgets the end": lambda packs: bounds(packs)[:-1],
            "does not see where a pack ends": lambda packs: bounds([[s for pack in packs for s in pack]]),
            "drops the padding": lambda packs: bounds([[s for s in pack if s] for pack in packs]),
        },
        hint="a segment begins where the id differs from the slot before, and at the start of every pack.",
    ),
])  # fmt: skip
check = EXERCISES.check
