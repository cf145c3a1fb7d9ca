"""Balance what is spread over many ranks: their lengths travel to all, and one schedule for everyone comes back."""

from collections.abc import Iterable

import numpy as np
import torch.distributed as dist

from packlib.distributed.collectives import Collectives
from packlib.lengths.counting import as_int64, as_lengths
from packlib.packing import Method, Schedule, plan
from packlib.work import Work


def balance_distributed(
    local_lengths: Iterable[int],
    max_length: int,
    method: Method = "optimal",
    max_sequences_per_pack: int | None = None,
    packs_per_rank: int = 1,
    window: int = 8,
    *,
    work: Work | None = None,
    seed: int = 0,
    ranks: int | None = None,
    group: dist.ProcessGroup | None = None,
) -> Schedule:
    """Pack the samples of all ranks of `group` together, and balance their work as `Packs.balance` does.

    Every rank calls this with its own lengths and gets the same schedule of all ranks. The id of a sample is its place
    when the ranks' lengths stand one after the other. Whatever the number of processes, the schedule is the one that
    `plan(all_lengths, max_length, method).assign(all_lengths).balance(ranks)` makes in one process. It names the
    sample ids of all ranks, so every rank needs room for them; `pack_distributed` does not, and balances nothing.

    To train on it, pass it to `packlib.batches.pack_loader`: where `data` has the samples of all ranks,
    `pack_loader(data, schedule)` gives each rank its packs, step by step.

    Args:
        local_lengths, max_length, method, max_sequences_per_pack: as in `pack_distributed`.
        packs_per_rank, window, work, seed: as in `Packs.balance`, the same on every rank.
        ranks: that will train; by default as many as `group` has.

    Raises:
        RankError: the same on every rank, if an argument of one of them is wrong, or no rank has a sample.
        TypeError, ValueError: the same without a process group.
    """
    here = Collectives(group)
    with here.agree_on_errors():
        mine = as_int64(as_lengths(local_lengths, at_least=0), "Length")
    depth = max_sequences_per_pack
    options: dict = dict(packs_per_rank=packs_per_rank, window=window, work=work, seed=seed)
    here.check_same(max_length=max_length, method=method, max_sequences_per_pack=depth, ranks=ranks, **options)
    lengths = here.exchange(np.tile(mine, here.size)[:, None], [len(mine)] * here.size)[:, 0]  # all of them
    with here.agree_on_errors():
        if here.rank == 0:  # other processors may round otherwise, so one rank makes it for all
            packs = plan(lengths, max_length, method, max_sequences_per_pack=depth).assign(lengths)
            made = packs.balance(here.size if ranks is None else ranks, **options)
    return here.broadcast(made if here.rank == 0 else None)
