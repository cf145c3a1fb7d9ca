from packbook.parameters import Dataset, Whole

PARAMETERS = {"dataset": Dataset(), "ranks": Whole(2, 16)}
