from packbook.parameters import Dataset, Whole

PARAMETERS = {"dataset": Dataset(), "max_length": Whole(8, 4096)}
