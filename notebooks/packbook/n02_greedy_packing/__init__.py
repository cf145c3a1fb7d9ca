from packbook.parameters import Dataset, Whole

PARAMETERS = {"dataset": Dataset(), "max_sequences_per_pack": Whole(1, 512, optional=True)}
