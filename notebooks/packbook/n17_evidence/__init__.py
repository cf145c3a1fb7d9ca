from packbook.parameters import Number, Whole

PARAMETERS = {"confidence": Number(0.5, 0.999), "pairs": Whole(2, 100)}
