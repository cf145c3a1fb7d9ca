"""A sampler whose order follows from a seed and the epoch, and that says where it is."""

from torch.utils.data import Sampler

from packlib.checks import flag, whole_number
from packlib.distributed.collectives import Collectives


class EpochSampler(Sampler):
    """What `PackBatchSampler` and `ScheduleSampler` share: an order that seed and epoch give, and a place in it.

    Attributes:
        epoch: the epoch of the next pass.
        start: the batch that the next pass begins with; the passes after it begin with the first.
        done: batches of the epoch that were handed out; a `PackLoader` leaves out what its workers fetched ahead.
    """

    depends_on: tuple[str, ...]  # the attributes that the batches of all ranks follow from

    def __init__(self, seed: int, shuffle: bool, ranks: int | None, rank: int | None) -> None:
        self.seed, self.shuffle = whole_number("seed", seed, 0), flag("shuffle", shuffle)
        here = Collectives()
        self.ranks = whole_number("ranks", here.size if ranks is None else ranks, 1)
        rank = (here.rank if self.ranks > 1 else 0) if rank is None else rank
        self.rank = whole_number("rank", rank, 0, self.ranks - 1)
        self.epoch = self.start = self.done = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass; it begins at its start, or where a loaded state of this epoch is."""
        if whole_number("epoch", epoch, 0) != self.epoch:
            self.epoch, self.start, self.done = epoch, 0, 0

    def setting(self) -> dict:
        """What the batches of all ranks depend on, as plain values."""
        return {name: getattr(self, name) for name in self.depends_on}

    def state_dict(self) -> dict:
        """The epoch, the batches of it that this rank was handed out, and what they depend on.

        Workers fetch ahead: with them take the state of the loader, which counts what was used.
        """
        over = self.done == len(self)  # the epoch is done: go on with the next
        return {"epoch": self.epoch + over, "batches_done": 0 if over else self.done, **self.setting()}

    def load_state_dict(self, state: dict, of: str = "sampler") -> None:
        """Go on from `state`, of any rank, at the next pass.

        Raises:
            ValueError: if the state is of other samples or settings.
        """
        for name, value in self.setting().items():
            if state.get(name) != value:
                raise ValueError(f"The state is of a {of} with {name} {state.get(name)}; this one has {value}.")
        done = whole_number("batches_done", state["batches_done"], 0, len(self) - 1)
        self.set_epoch(state["epoch"])
        self.done = self.start = done
