"""Context parallelism: several ranks work on one pack, each on some of its tokens.

With causal attention a later token sees more, so equal parts are unequal work. Megatron-Core and Transformer Engine
therefore cut what they share into 2 cp equal chunks, for cp ranks, and rank r gets chunk r and chunk 2 cp - 1 - r, one
from the head and one from the tail. What they cut must have a multiple of 2 cp tokens, and is padded to it.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np

from packlib.checks import one_of, shown, whole_number
from packlib.work.cost import LengthsOfPacks, Work, check_work
from packlib.work.rank_groups import dealt

Sharding = Literal["sequence", "pack", "whole"]
SHARDINGS: tuple[Sharding, ...] = get_args(Sharding)


class ContextShards(NamedTuple):
    """Work of each rank of a group for each pack.

    Attributes:
        work: padding included; float64, shape (number of packs, ranks). With whole sequences the busiest rank is first.
        padding_tokens: added to each pack; int64, shape (number of packs,).
    """

    work: np.ndarray
    padding_tokens: np.ndarray


def context_shards(packs: LengthsOfPacks, ranks: int, sharding: Sharding = "sequence", *, work: Work) -> ContextShards:
    """Deal the tokens of each pack to a group of ranks, with causal attention within each sequence.

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
        ranks: of the group, cp; 1 to 1,024.
        sharding: one of `SHARDINGS`.

    Raises:
        TypeError, ValueError: naming the argument that is wrong.
    """
    if not isinstance(packs, LengthsOfPacks):
        raise TypeError(f"packs must be Packs, not {shown(packs)}.")
    check_work(work)
    one_of("sharding", sharding, SHARDINGS)
    ranks = whole_number("ranks", ranks, 1, 1024)
    starts, ends_at, chunks = packs.offsets[:-1], packs.offsets[1:], 2 * ranks
    each = packs.lengths.astype(np.int64)
    held, padding = np.add.reduceat(each, starts), np.zeros(len(starts), np.int64)
    if sharding == "whole" or ranks == 1:
        of_packs = np.split(work.of(each), starts[1:])
        done = np.array([dealt(np.ones(len(of_pack), np.int64), of_pack, ranks)[1] for of_pack in of_packs])
        return ContextShards(-np.sort(-done, axis=1), padding)
    if sharding == "sequence":
        padded = -(-each // chunks) * chunks
        tokens, squares = (np.add.reduceat(values, starts) for values in (padded, padded**2))
        return ContextShards(np.tile(work.total(tokens, squares)[:, None] / ranks, ranks), tokens - held)
    padding = -held % chunks
    each[ends_at - 1] += padding
    ends, before = np.cumsum(each), np.cumsum(each**2) - each**2
    tokens = (held + padding) // chunks  # of a chunk
    cuts = (ends[starts] - each[starts])[:, None] + tokens[:, None] * np.arange(chunks + 1)
    at = np.minimum(np.searchsorted(ends, cuts, side="right"), len(each) - 1)
    squares = np.diff(before[at] + (cuts - ends[at] + each[at]) ** 2, axis=1)
    of_chunks = work.total(tokens[:, None], squares)
    return ContextShards((of_chunks + of_chunks[:, ::-1])[:, :ranks], padding)
