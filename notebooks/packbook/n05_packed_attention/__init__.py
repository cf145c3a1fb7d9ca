from packbook.parameters import Dataset, Whole

PARAMETERS = {"dataset": Dataset(), "layers": Whole(1, 6)}
