from packbook.parameters import Dataset, Whole

PARAMETERS = {"dataset": Dataset(), "buckets": Whole(2, 16), "ranks": Whole(2, 16)}
