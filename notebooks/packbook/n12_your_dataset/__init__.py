from packbook.parameters import Choice, Dataset, Whole

PARAMETERS = {
    "dataset": Dataset(),
    "max_length": Whole(1, 1 << 20, optional=True),
    "overlong": Choice(("truncate", "drop", "split")),
    "max_sequences_per_pack": Whole(1, 1 << 20, optional=True),
    "today": Choice(("random", "sorted", "fixed", "packed")),
    "batch_size": Whole(1, 1 << 20),
}
