from packbook.parameters import Choice, Whole

PARAMETERS = {
    "texts": Choice(("wordnet", "wordnet-pairs")),
    "number": Whole(100, 1300),
    "max_length": Whole(16, 128),
    "updates": Whole(4, 1000),
}
