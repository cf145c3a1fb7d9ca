"""Context parallelism: several ranks work on one pack, each on some of its tokens.

With causal attention a later token sees more tokens, so that equal parts of a sequence are unequal work. For cp ranks,
Megatron-Core and Transformer Engine therefore cut a sequence into 2 cp equal chunks. Rank r gets chunk r and chunk
2 cp - 1 - r, one from the head and one from the tail. The sequence is first padded to a multiple of 2 cp tokens.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np

from packlib.arguments import one_of, shown, whole_number
from packlib.work.cost import LengthsOfPacks, Work, check_work
from packlib.work.rank_groups import place_on_groups

Sharding = Literal["sequence", "pack", "whole"]
SHARDINGS: tuple[Sharding, ...] = get_args(Sharding)


class ContextShards(NamedTuple):
    """Work of each rank of a group for each pack, and the padding.

    Attributes:
        work: of each rank for each pack, padding included; float64, shape (number of packs, ranks). With whole
            sequences, the ranks of a pack are sorted from the busiest to the least busy.
        padding_tokens: tokens that are added to each pack; int64, shape (number of packs,).
    """

    work: np.ndarray
    padding_tokens: np.ndarray


def context_shards(packs: LengthsOfPacks, ranks: int, sharding: Sharding = "sequence", *, work: Work) -> ContextShards:
    """Divide the tokens of each pack among a group of ranks, and compute the work of each rank.

    Attention is causal within each sequence. There are three ways:

    - "sequence": each sequence is padded and cut into 2 cp chunks. All ranks have equal work. (The THD format of
      Transformer Engine, https://github.com/NVIDIA/TransformerEngine/issues/1368; WLB-LLM, arXiv 2503.17924, calls it
      per-document sharding.)
    - "pack": the pack is padded at its end and cut into 2 cp chunks, wherever its sequences end. (WLB-LLM:
      per-sequence sharding.)
    - "whole": no sequence is cut. From the most work to the least, each goes to the rank with the least (LPT, Graham
      1969). Nothing is padded, and no keys and values are sent.

    A token that sees n tokens, itself included, counts 2 n - 1 squares, so that a sequence of l tokens counts l², and
    its chunk from token s up to token e counts e² - s². One rank alone cuts and pads nothing.

    >>> from packlib import plan
    >>> from packlib.work import SHARDINGS, Work, context_shards
    >>> packs = plan([5, 3], max_length=8).assign([5, 3])
    >>> for sharding in SHARDINGS:
    ...     shards = context_shards(packs, ranks=2, sharding=sharding, work=Work(0, 1))
    ...     print(sharding, shards.work[0], shards.padding_tokens[0])
    sequence [40. 40.] 4
    pack [12. 22.] 0
    whole [25.  9.] 0

    Args:
        packs: `Packs`, or other rows that keep sequences apart.
        ranks: number of ranks in the group, cp; 1 to 1,024.
        sharding: one of `SHARDINGS`.
        work: what a pack costs.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.
    """
    if not isinstance(packs, LengthsOfPacks):
        raise TypeError(f"packs must be Packs, not {shown(packs)}.")
    check_work(work)
    one_of("sharding", sharding, SHARDINGS)
    ranks = whole_number("ranks", ranks, 1, 1024)
    lengths = packs.lengths.astype(np.int64)
    if sharding == "whole" or ranks == 1:
        return _whole_sequences(packs, lengths, ranks, work)
    if sharding == "sequence":
        return _cut_sequences(packs, lengths, ranks, work)
    return _cut_packs(packs, lengths, ranks, work)


# In the three functions below, `lengths` are the packs' lengths; int64, shape (number of sequences,).


def _whole_sequences(packs: LengthsOfPacks, lengths: np.ndarray, ranks: int, work: Work) -> ContextShards:
    """Assign the sequences of each pack to the ranks, the heaviest first."""
    works_of_packs = np.split(work.of(lengths), packs.offsets[1:-1])
    rank_works = [place_on_groups(np.ones(len(works), np.int64), works, ranks)[1] for works in works_of_packs]
    from_busiest = -np.sort(-np.array(rank_works), axis=1)
    return ContextShards(from_busiest, np.zeros(len(works_of_packs), np.int64))


def _cut_sequences(packs: LengthsOfPacks, lengths: np.ndarray, ranks: int, work: Work) -> ContextShards:
    """Pad each sequence to whole chunks; each rank then has an equal share of it."""
    starts = packs.offsets[:-1]
    chunks = 2 * ranks
    padded = -(-lengths // chunks) * chunks
    tokens = np.add.reduceat(padded, starts)
    squares = np.add.reduceat(padded**2, starts)
    work_of_rank = work.total(tokens, squares) / ranks
    padding = tokens - np.add.reduceat(lengths, starts)
    return ContextShards(np.tile(work_of_rank[:, None], ranks), padding)


def _cut_packs(packs: LengthsOfPacks, lengths: np.ndarray, ranks: int, work: Work) -> ContextShards:
    """Pad the last sequence of each pack, and cut the pack into equal chunks, no matter where its sequences end."""
    starts = packs.offsets[:-1]
    chunks = 2 * ranks
    tokens = np.add.reduceat(lengths, starts)
    padding = -tokens % chunks
    lengths[packs.offsets[1:] - 1] += padding  # `lengths` is a copy of the packs' own
    tokens_of_chunk = (tokens + padding) // chunks

    # Tokens are numbered through all packs. The squares up to a cut are those of all sequences before the cut sequence,
    # and the square of the tokens of this sequence that come before the cut.
    ends = np.cumsum(lengths)
    first_tokens = ends - lengths
    squares_before = np.cumsum(lengths**2) - lengths**2
    cuts = first_tokens[starts][:, None] + tokens_of_chunk[:, None] * np.arange(chunks + 1)  # (packs, chunks + 1)
    cut_sequences = np.minimum(np.searchsorted(ends, cuts, side="right"), len(lengths) - 1)
    squares_up_to_cut = squares_before[cut_sequences] + (cuts - first_tokens[cut_sequences]) ** 2
    work_of_chunks = work.total(tokens_of_chunk[:, None], np.diff(squares_up_to_cut, axis=1))
    head_chunks = work_of_chunks[:, :ranks]
    tail_chunks = work_of_chunks[:, ::-1][:, :ranks]  # the last chunk goes to the first rank
    return ContextShards(head_chunks + tail_chunks, padding)
