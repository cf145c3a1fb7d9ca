from packbook.parameters import Dataset, Number, Whole

PARAMETERS = {"dataset": Dataset(), "budget": Whole(64, 65_536), "duration": Number(0, 1)}
