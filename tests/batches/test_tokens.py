"""The token store and WordNet's sentence pairs."""

import numpy as np
import pytest
import tokenizers
from model_cases import store, tokenizer
from transformers import PreTrainedTokenizerFast

from packlib.batches import TokenStore, tokenize
from packlib.workbook.chapters.shared.glosses import WordNetTexts, wordnet_texts
from packlib.workbook.chapters.shared.wordnet import sentence_pairs, wordnet_store


def equal(a, b):
    return all(np.array_equal(getattr(a, n), getattr(b, n)) for n in a.__dataclass_fields__)


def test_tokens_are_the_tokenizers_own():
    texts, pairs = ["a big dog", "to run", "water"], ["the dog barked", "", "a glass of water"]
    tokens = tokenize(tokenizer(), texts, pairs, sequence_labels=[0, -100, 1])
    for i, (text, pair) in enumerate(zip(texts, pairs, strict=True)):
        one = tokenizer()(text, pair or None)
        assert tokens[i]["input_ids"].tolist() == one["input_ids"]
        assert tokens[i]["token_type_ids"].tolist() == one["token_type_ids"]
    assert tokens.sequence_labels.tolist() == [0, -100, 1] and tokens.input_ids.dtype == np.uint16
    assert [tokens[-1]["label"], len(tokens)] == [1, 3]


def test_many_blocks_are_one_store():
    texts = wordnet_texts().definition[:5000]
    tokens = tokenize(tokenizer(), texts)
    assert tokens.lengths.tolist() == wordnet_texts().definition_tokens[:5000].tolist()


def test_take_and_concatenate():
    ids = [5, 5, 0, 407]
    some = store().take(ids)
    assert some.sample_ids.tolist() == ids
    for place, i in enumerate(ids):
        assert some[place]["input_ids"].tolist() == store()[i]["input_ids"].tolist()
    parts = TokenStore.concatenate([store().take(ids[1:2]), store().take(ids[2:])])
    assert equal(parts, store().take(ids[1:]))
    with pytest.raises(ValueError, match="sample_ids must be different for each sequence"):
        TokenStore.concatenate([store().take(ids[:1]), store().take(ids[1:])])
    for wrong in ([0.7], [True, False]):
        with pytest.raises(TypeError, match="Index"):
            store().take(wrong)
    again = TokenStore.from_samples([store()[i] for i in ids[1:]], ids[1:])
    assert equal(again, store().take(ids[1:]))
    assert len(store().take([])) == 0
    for bad in ([408], [-1]):
        with pytest.raises(IndexError, match="There are 408 sequences"):
            store().take(bad)
    with pytest.raises(IndexError, match="no sequence 408"):
        store()[408]


def test_a_saved_store_is_mapped_and_checked(tmp_path):
    path = tmp_path / "some.tokens"
    store().save(path)
    loaded = TokenStore.load(path)
    assert equal(loaded, store()) and not loaded.input_ids.flags.owndata
    assert not loaded.input_ids.flags.writeable and [p.name for p in tmp_path.iterdir()] == ["some.tokens"]
    whole = path.read_bytes()
    at = len(whole) // 2
    for damaged in (whole[:-1], whole[:2000], b"", whole[:at] + b"\xff" + whole[at + 1 :], whole + b"x", b"no store"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"some\.tokens is no whole token store"):
            TokenStore.load(path)
    with pytest.raises(FileNotFoundError):
        TokenStore.load(tmp_path / "none.tokens")


def test_offsets_that_wrap_around_are_refused():
    turns = np.array([0, 2**63 - 1, -(2**63), -1, 3])  # differences in 64 bits are all positive
    with pytest.raises(ValueError, match="Sequence 1 has no token"):
        TokenStore(np.zeros(3, int), np.zeros(3, int), turns, np.zeros(4, int))


def test_bad_input_gets_one_sentence():
    for match, call in {
        "There are no texts": lambda: tokenize(tokenizer(), []),
        "There are 1 pairs for 2 texts": lambda: tokenize(tokenizer(), ["a", "b"], ["c"]),
        "Text 1 has 10 tokens; the maximum is 8": lambda: tokenize(tokenizer(), ["a", "b " * 8], max_length=8),
        "sample 1 has no token": lambda: TokenStore.from_samples([{"input_ids": [1]}, {"input_ids": []}]),
        "do not cut 3 tokens": lambda: TokenStore(np.ones(3, int), np.ones(3, int), np.array([0, 2]), np.ones(1, int)),
        "There are 2 token_type_ids for 3 tokens": lambda: TokenStore(
            np.ones(3, int), np.ones(2, int), np.array([0, 3]), np.ones(1, int)
        ),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
    short = tokenize(tokenizer(), ["b " * 20], max_length=8, overlong="truncate")
    assert short.lengths.tolist() == [8]


def test_half_of_the_examples_belong_to_another_gloss():
    texts = wordnet_texts()
    pairs, labels = sentence_pairs(seed=1)
    have = texts.examples != ""
    assert (labels[~have] == -100).all() and (pairs[~have] == "").all()
    own, others = labels == 0, labels == 1
    assert (own | others)[have].all() and abs(int(own.sum()) - int(others.sum())) <= 1
    assert (pairs[own] == texts.examples[own]).all()
    assert (pairs[others] != texts.examples[others]).mean() > 0.999  # a few glosses share an example
    assert sorted(pairs[have]) == sorted(texts.examples[have])  # every example once
    again, other_seed = sentence_pairs(seed=1), sentence_pairs(seed=2)
    assert (again[0] == pairs).all() and (other_seed[1] != labels).any()


def test_wordnet_is_tokenized_once(tmp_path, monkeypatch, capsys):
    """On every 40th gloss; a store that is there is mapped, and a damaged one is made again."""
    texts = WordNetTexts(*(getattr(wordnet_texts(), name)[::40] for name in WordNetTexts.__dataclass_fields__))
    monkeypatch.setenv("PACKLIB_CACHE", str(tmp_path))
    monkeypatch.setattr("packlib.workbook.chapters.shared.wordnet.wordnet_texts", lambda: texts)
    tokens = wordnet_store()
    assert "tokenize" in capsys.readouterr().err  # the progress bar
    assert len(tokens) == len(texts) and tokens.lengths.max() <= 128
    own = (tokens.sequence_labels == 0) & (texts.pair_tokens <= 128)
    assert own.any() and (tokens.lengths[own] == texts.pair_tokens[own]).all()
    alone = tokens.sequence_labels == -100
    assert (tokens.lengths[alone] == np.minimum(texts.definition_tokens[alone], 128)).all()
    (path,) = tmp_path.iterdir()
    made = path.stat().st_mtime_ns
    assert equal(wordnet_store(), tokens) and path.stat().st_mtime_ns == made
    body = bytearray(path.read_bytes())
    body[5000] ^= 1
    path.unlink()  # the arrays above stay mapped to the old file
    path.write_bytes(body)
    assert equal(wordnet_store(progress=False), tokens)
    assert path.read_bytes() != body and capsys.readouterr().err == ""


@pytest.mark.parametrize("words, kind", [(65_536, np.uint16), (65_537, np.int32)])
def test_the_tokens_of_a_large_vocabulary_fit_in_their_type(words, kind):
    vocabulary = {f"w{at}": at for at in range(words)}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="w0"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokens = tokenize(PreTrainedTokenizerFast(tokenizer_object=model), [f"w1 w{words - 1}", "w2"])
    assert tokens.input_ids.tolist() == [1, words - 1, 2] and tokens.input_ids.dtype == kind


def test_the_type_is_that_of_the_largest_token_where_some_are_left_out():
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 70_000}, unk_token="a"))
    assert tokenize(PreTrainedTokenizerFast(tokenizer_object=model), ["b"]).input_ids.tolist() == [70_000]
