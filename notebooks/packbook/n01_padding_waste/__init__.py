from packbook.parameters import Dataset, Whole

PARAMETERS = {"dataset": Dataset(), "batch_size": Whole(1, 4096)}
