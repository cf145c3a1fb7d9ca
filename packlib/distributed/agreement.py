"""The one error that all ranks raise."""


class RankError(RuntimeError):
    """What went wrong on one rank, told on every rank: the sentence names the rank, and so does `rank`."""

    def __init__(self, sentence: str, rank: int | None = None) -> None:
        super().__init__(sentence)
        self.rank = rank

    @classmethod
    def of(cls, rank: int, world_size: int, error: BaseException) -> "RankError":
        """The error that rank `rank` raised; one that is told already stays as it is."""
        if isinstance(error, cls):
            return error
        return cls(f"Rank {rank} of {world_size} raised {type(error).__name__}: {error}", rank)
