"""Notebook 00: the whole on real text, in one sitting."""

from packbook.parameters import Choice, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(
    texts=Choice(("wordnet", "wordnet-pairs")),
    number=Whole(100, 1300),
    max_length=Whole(16, 128),
    updates=Whole(4, 1000),
)
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "RowsExplorer", "mark", "reveal"],
        f"{__name__}.texts": ["choose_texts", "tokens_of"],
        "packbook.shared.small_models": ["small_bert"],
        "packbook.shared.two_words": ["small_bert_of_words", "two_word_batch"],
    },
)
