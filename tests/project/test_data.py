"""The committed data: checksums, size, WordNet's texts, the tokenizer, and the stored lengths."""

import hashlib
import os
import runpy
import subprocess

import numpy as np
import pytest

from packbook.shared.glosses import wordnet_texts
from packlib.lengths import LengthHistogram, data_path, load, tokenizer_path

DATA = data_path()


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import BertTokenizerFast

    return BertTokenizerFast.from_pretrained(tokenizer_path())


def test_checksums():
    sums = dict(reversed(line.split()) for line in (DATA / "SHA256SUMS").read_text().splitlines())
    for name, expected in sums.items():
        assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == expected, name
    listed = subprocess.run(["git", "ls-files", "wordnet", "lengths"], cwd=DATA, capture_output=True, text=True)
    assert listed.returncode or set(sums) == set(listed.stdout.split()), "every file of the data sets has a checksum"


def test_the_licenses_go_with_the_data():
    notice, readme = (DATA / "wordnet" / "LICENSE").read_text(), (DATA / "README.md").read_text()
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in notice
    assert "Permission to use, copy, modify and distribute" in notice
    assert "Copyright (c) 2019 Graphcore Ltd." in readme and "this permission notice shall be included" in readme


def test_wordnet_texts():
    texts = wordnet_texts()
    assert len(texts) == 117_659 and texts is wordnet_texts()
    assert np.array_equal(texts.examples != "", texts.pair_tokens > 0)
    with pytest.raises(ValueError, match="read-only"):
        texts.definition[0] = ""
    assert repr(texts) == "WordNetTexts(117,659 glosses, 32,929 with usage examples)"


@pytest.mark.parametrize("every", [37, *[1] * bool(os.environ.get("PACKLIB_ALL"))])
def test_stored_lengths_are_what_the_tokenizer_gives(tokenizer, every):
    """The lengths are stored under a checksum; `make test-all` counts the tokens of every gloss."""
    texts = wordnet_texts()
    rows = slice(None, None, every)
    ids = tokenizer(texts.definition[rows].tolist())["input_ids"]
    assert [len(i) for i in ids] == texts.definition_tokens[rows].tolist()
    assert not any(tokenizer.unk_token_id in i for i in ids)
    pairs = np.flatnonzero(texts.pair_tokens)[rows]
    ids = tokenizer(texts.definition[pairs].tolist(), texts.examples[pairs].tolist())["input_ids"]
    assert [len(i) for i in ids] == texts.pair_tokens[pairs].tolist()


def test_histograms_count_the_stored_lengths():
    texts = wordnet_texts()
    pairs = texts.pair_tokens[texts.pair_tokens > 0]
    for name, lengths in (("wordnet", texts.definition_tokens), ("wordnet-pairs", pairs)):
        assert load(name, max_length=255) == LengthHistogram.from_lengths(lengths, 255)
        assert load(name) == LengthHistogram.from_lengths(lengths, 128, "truncate")
    assert texts.definition_tokens.mean() - 2 == pytest.approx(15.0, abs=0.05)
    assert pairs.mean() - 3 == pytest.approx(27.7, abs=0.05)


def test_glosses_are_split_where_the_examples_begin():
    """As all that are stored were, and in the three that lost their opening mark, of which one has no example."""
    split, texts = runpy.run_path(str(DATA / "build_wordnet.py"))["split_gloss"], wordnet_texts()
    for definition, examples in zip(texts.definition, texts.examples, strict=True):
        assert split(f"{definition}; {examples}") == (definition, examples)
    assert split('a list; as in e.g. "a roundup";') == ("a list; as in", '"a roundup"')
    assert split('close in; darkness enclosed him"') == ("close in", '"darkness enclosed him"')
    assert split('the words used (e.g., "he said")') == ("the words used", '"he said")') and split('one"') == (
        "one",
        "",
    )


def test_docstrings_are_cleaned_and_told_once(tmp_path, monkeypatch):
    package = tmp_path / "toypackage"
    (package / "tests").mkdir(parents=True)
    (package / "__init__.py").write_text(
        '"""Top.\n\n    More.\n    """\ndef f():\n    """F."""\n    class A:\n        "A."\n'
    )
    (package / "b.py").write_text("x = 1\nasync def g():\n    'G.'\ndef h(): pass\n")
    (package / "tests" / "test_b.py").write_text('"""Not this."""')
    monkeypatch.syspath_prepend(tmp_path)
    docstrings = runpy.run_path(str(DATA / "build_docstrings.py"))["docstrings"]
    assert list(docstrings("toypackage")) == ["Top.\n\nMore.", "F.", "A.", "G."]
