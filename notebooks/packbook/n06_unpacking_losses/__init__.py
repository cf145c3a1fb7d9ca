from packbook.parameters import Whole

PARAMETERS = {"max_sequences_per_pack": Whole(1, 128, optional=True), "steps": Whole(0, 1000)}
