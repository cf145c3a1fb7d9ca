from packlib.workbook.parameters import Choice, Dataset, RecipeFile, Whole

PARAMETERS = {
    "dataset": Dataset(),
    "max_length": Whole(1, 1 << 20, optional=True),
    "overlong": Choice(("truncate", "drop")),
    "max_sequences_per_pack": Whole(1, 1 << 20, optional=True),
    "batch_size": Whole(1, 1 << 20),
    "recipe": RecipeFile(),
}
