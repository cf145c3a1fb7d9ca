from packlib.workbook.parameters import Dataset, Whole

PARAMETERS = {"dataset": Dataset(), "layers": Whole(1, 6)}
