"""The real text of the workbook: WordNet's glosses."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from packlib.lengths import data_path


@dataclass(frozen=True, eq=False)
class WordNetTexts:
    """Hold WordNet 3.0's 117,659 glosses in WordNet's order, an array for each column; every array is read-only.

    Attributes:
        definition: str, what the words mean: the text of the data set `wordnet`.
        examples: str, the usage examples as WordNet writes them, in quotation marks; "" for most glosses.
            `definition` and `examples`, where there are some, are the data set `wordnet-pairs`.
        pos: str, "noun", "verb", "adj" or "adv".
        lexname: str, one of 45 lexicographer files such as "noun.animal": a label to classify.
        definition_tokens: uint8, tokens of `[CLS] definition [SEP]` under the committed tokenizer.
        pair_tokens: uint8, tokens of `[CLS] definition [SEP] examples [SEP]`; 0 where there are no examples.
    """

    definition: np.ndarray
    examples: np.ndarray
    pos: np.ndarray
    lexname: np.ndarray
    definition_tokens: np.ndarray
    pair_tokens: np.ndarray

    def __len__(self) -> int:
        return len(self.definition)

    def __repr__(self) -> str:
        return f"WordNetTexts({len(self):,} glosses, {np.count_nonzero(self.pair_tokens):,} with usage examples)"


@cache
def wordnet_texts() -> WordNetTexts:
    """Read WordNet's glosses from `data/` (once; later calls return the same object)."""
    import pyarrow.parquet as pq

    table = pq.read_table(data_path("wordnet", "glosses.parquet"))
    columns = {name: table[name].to_numpy() for name in table.column_names}
    for column in columns.values():
        column.flags.writeable = False
    return WordNetTexts(**columns)
