from packbook.parameters import Whole

PARAMETERS = {"max_length": Whole(2048, 131_072), "ranks": Whole(2, 64), "packs_per_rank": Whole(1, 16)}
