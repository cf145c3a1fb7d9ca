"""Build `data/wordnet/` and its length histograms from WordNet 3.0's database files.

    apt-get update && apt-get download wordnet-base && dpkg -x wordnet-base_*.deb wordnet-base
    python data/record.py wordnet wordnet-base/usr/share/wordnet

The glosses and lengths come out the same every time. Training a tokenizer does not (the trainer breaks ties
by hash order), so the committed one is used unless `--train-tokenizer` is given.
"""

import argparse
import re
import string
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import BertWordPieceTokenizer
from transformers import BertTokenizerFast

from packlib.lengths import LengthHistogram

DATA = Path(__file__).resolve().parent
TOKENIZER = DATA / "wordnet" / "tokenizer"
VOCABULARY_SIZE = 4000

# The lexicographer files by number, from the manual page lexnames(5WN).
LEXNAMES = (
    "adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body "
    "noun.cognition noun.communication noun.event noun.feeling noun.food noun.group noun.location "
    "noun.motive noun.object noun.person noun.phenomenon noun.plant noun.possession noun.process "
    "noun.quantity noun.relation noun.shape noun.state noun.substance noun.time verb.body verb.change "
    "verb.cognition verb.communication verb.competition verb.consumption verb.contact verb.creation "
    "verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative verb.weather "
    "adj.ppl"
).split()


def split_gloss(gloss: str) -> tuple[str, str]:
    """Cut a gloss into its definition and its usage examples: the first quotation mark is where they begin.

    >>> split_gloss('cause to burn; "fire burns wood"; "burn it"')
    ('cause to burn', '"fire burns wood"; "burn it"')
    """
    definition, mark, rest = gloss.partition('"')
    examples = (mark + rest).strip()
    if examples == '"':  # three glosses lost their opening mark: the example is what follows the last semicolon
        definition, _, rest = definition.rpartition("; ")
        definition, examples = (definition, f'"{rest}"') if definition else (rest, "")
    if examples:
        definition = re.sub(r"([\s;:,(]|\be\.g\.)+$", "", definition)
    return definition.strip(" ;"), examples.strip(" ;")


def read_synsets(folder: Path) -> dict[str, list[str]]:
    """Read the columns definition, examples, pos and lexname, in WordNet's own order."""
    columns: dict[str, list[str]] = {"definition": [], "examples": [], "pos": [], "lexname": []}
    for pos in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{pos}").read_text("ascii").splitlines():
            if line.startswith("  "):  # the license notice
                continue
            head, gloss = line.split(" | ", 1)
            row = (*split_gloss(gloss.strip()), pos, LEXNAMES[int(head.split()[1])])
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    return columns


def read_license(folder: Path) -> str:
    """Return the notice at the top of every database file, which must go with every copy."""
    lines = (line for line in (folder / "data.noun").read_text("ascii").splitlines() if line.startswith("  "))
    return "\n".join(re.sub(r"^ *\d+ ?", "", line).rstrip() for line in lines) + "\n"


def train_tokenizer(texts: list[str]) -> None:
    trainer = BertWordPieceTokenizer(lowercase=True)
    letters = sorted({c.lower() for c in string.printable if not c.isspace()})
    trainer.train_from_iterator(texts, VOCABULARY_SIZE, initial_alphabet=letters, show_progress=False)
    tokenizer = BertTokenizerFast(vocab=trainer.get_vocab(), do_lower_case=True, model_max_length=512)
    tokenizer.save_pretrained(TOKENIZER)


def count_tokens(tokenizer: BertTokenizerFast, texts: list) -> np.ndarray:
    """Return the tokens of each text (or pair of texts), with [CLS] and [SEP]; uint8, for the longest has under 256."""
    return np.array([len(ids) for ids in tokenizer(texts)["input_ids"]], np.uint8)


def main(*given: str) -> None:
    parser = argparse.ArgumentParser(prog="python data/record.py wordnet", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where data.noun, data.verb, data.adj and data.adv are")
    parser.add_argument("--train-tokenizer", action="store_true", help="replace the committed tokenizer")
    options = parser.parse_args(given)

    columns = read_synsets(options.folder)
    (DATA / "wordnet").mkdir(exist_ok=True)
    (DATA / "wordnet" / "LICENSE").write_text(read_license(options.folder))
    if options.train_tokenizer:
        train_tokenizer([*columns["definition"], *filter(None, columns["examples"])])

    tokenizer = BertTokenizerFast.from_pretrained(TOKENIZER)
    definition_tokens = count_tokens(tokenizer, columns["definition"])
    pairs = [pair for pair in zip(columns["definition"], columns["examples"], strict=True) if pair[1]]
    has_examples = np.array([text != "" for text in columns["examples"]])
    pair_tokens = np.zeros(len(has_examples), np.uint8)
    pair_tokens[has_examples] = count_tokens(tokenizer, pairs)
    table = pa.table({**columns, "definition_tokens": definition_tokens, "pair_tokens": pair_tokens})
    pq.write_table(
        table,
        DATA / "wordnet" / "glosses.parquet",
        compression="zstd",
        compression_level=19,
        use_dictionary=["pos", "lexname"],
        write_statistics=False,
        row_group_size=len(table),
    )
    for name, lengths in (("wordnet", definition_tokens), ("wordnet-pairs", pair_tokens[has_examples])):
        histogram = LengthHistogram.from_lengths(lengths, name=name)
        histogram.to_csv(DATA / "lengths" / f"{name}.csv")
        print(histogram)
