"""The token store and WordNet's sentence pairs."""

import numpy as np
import pandas
import pytest
import tokenizers
from model_cases import masking, store, tokenizer
from transformers import PreTrainedTokenizerFast

from packbook.shared.glosses import WordNetTexts, wordnet_texts
from packbook.shared.wordnet import sentence_pairs, wordnet_store
from packlib.batches import IGNORED, PackingCollator, TokenStore, collate, tokenize


def equal(a, b):
    """Whether two stores have equal arrays."""
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


def test_take_and_concatenate():
    ids = [5, 0, 407]
    some = store().take(ids)
    assert some.sample_ids.tolist() == ids and len(store().take([])) == 0
    for place, i in enumerate(ids):
        assert some[place]["input_ids"].tolist() == store()[i]["input_ids"].tolist()
    assert equal(TokenStore.concatenate([store().take(ids[:1]), store().take(ids[1:])]), some)
    assert equal(TokenStore.from_samples([store()[i] for i in ids], ids), some)
    with pytest.raises(ValueError, match="sample_ids must be different for each sequence"):
        TokenStore.concatenate([some, some])
    for wrong in ([0.7], [True, False]):
        with pytest.raises(TypeError, match="Sequence number"):
            store().take(wrong)
    for bad in ([408], [-1]):
        with pytest.raises(IndexError, match="There are 408 sequences"):
            store().take(bad)
    with pytest.raises(IndexError, match="no sequence 408"):
        store()[408]


def test_a_saved_store_is_mapped_and_checked(tmp_path):
    path = tmp_path / "some.tokens"
    for data in (masking()(store().take([9, 4])), store()):  # with labels and ids of their own, and without labels
        data.save(path)
        loaded = TokenStore.load(path)
        assert equal(loaded, data) and not loaded.input_ids.flags.owndata
    assert not loaded.input_ids.flags.writeable and [p.name for p in tmp_path.iterdir()] == ["some.tokens"]
    whole = path.read_bytes()
    at = len(whole) // 2
    for damaged in (whole[:-1], whole[:2000], b"", whole[:at] + b"\xff" + whole[at + 1 :], whole + b"x", b"no store"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"some\.tokens is no whole token store"):
            TokenStore.load(path)
    with pytest.raises(FileNotFoundError):
        TokenStore.load(tmp_path / "none.tokens")


def arrays(**changes):
    """Makes a store of two sequences from lists, with some arrays changed."""
    plain = {
        "input_ids": [1, 2, 3],
        "token_type_ids": [0, 0, 0],
        "offsets": [0, 2, 3],
        "sequence_labels": [IGNORED, 0],
    }
    return lambda: TokenStore(**plain | changes)


TOKENS = {"input_ids": [4, 5, 6], "attention_mask": np.ones(3, bool)}
LABELED = {**TOKENS, "labels": [4, 5, 6]}


def samples(sample):
    """Makes a store of a good sample and this one."""
    return lambda: TokenStore.from_samples([TOKENS, sample])


def joined(*given):
    """Collates stores of one sample each."""
    return lambda: PackingCollator(8)([(0, TokenStore.from_samples([sample])) for sample in given])


@pytest.mark.parametrize(
    "call, sentence",
    [
        (arrays(offsets=[0, 2]), "do not cut 3 tokens"),
        (arrays(offsets=[0, 2**63 - 1, -(2**63), -1, 3], sequence_labels=[0] * 4), "Sequence 1 has no token"),  # wraps
        (arrays(token_type_ids=[0, 0]), "There are 2 token_type_ids for 3 tokens"),
        (arrays(labels=[1]), "There are 1 labels for 3 tokens"),
        (arrays(labels=[1, 2.5, 3]), "label.*whole number"),
        (arrays(input_ids=None), "input_id.*whole number"),
        (arrays(sequence_labels=[0.5, 1]), "sequence_label.*whole number"),
        (arrays(sample_ids=[3, 3]), "must be different for each"),
        (arrays(sample_ids=[3, -3]), "sample_ids must be at least 0"),
        (samples({**TOKENS, "start_positions": 1}), "sample 1 has the column 'start_positions', which no batch can"),
        (samples({**TOKENS, "attention_mask": [True, False, True]}), "attention_mask of sample 1 hides tokens"),
        (samples({**TOKENS, "label": 1, "next_sentence_label": 1}), "sample 1 has label and next_sentence_label"),
        (samples({**TOKENS, "labels": [1, 2]}), "sample 1 has 2 labels for 3 input_ids"),
        (samples(LABELED), "1 of 2 samples have labels for their tokens; all must, or none"),
        (samples({**TOKENS, "label": -7}), "sequence_labels must be from 0 up, or -100 for none, not -7"),
        (samples({"input_ids": []}), "sample 1 has no token"),
        (samples({"input_ids": [4, 10**400]}), "input_ids of sample 1 must be whole numbers of 64 bits"),
        (samples({"text": "a"}), "sample 1 must be a mapping with input_ids, not {'text': 'a'}"),
        (lambda: TokenStore.from_samples(pandas.DataFrame([TOKENS])), r"samples must not be a pandas frame: pass dat"),
        (samples([4, 5]), r"sample 1 must be a mapping with input_ids, not \[4, 5\]"),
        (joined(TOKENS, LABELED), "Store 0 has no labels, and store 1 has some"),
        (lambda: TokenStore.from_samples([TOKENS, TOKENS], [3]), "There are 1 sample_ids for 2"),
        (lambda: tokenize(tokenizer(), []), "There are no texts"),
        (lambda: tokenize(tokenizer(), ["a", "b"], ["c"]), "There are 1 pairs for 2 texts"),
        (lambda: tokenize(tokenizer(), ["a", "b " * 8], max_length=8), "Text 1 has 10 tokens; the maximum is 8"),
    ],
)
def test_what_cannot_be_carried_is_refused_by_name(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_lists_will_do_and_texts_can_be_cut():
    assert collate(arrays()(), [2], 4).input_ids.tolist() == [[1, 2, 3, 0]]
    assert tokenize(tokenizer(), ["b " * 20], max_length=8, overlong="truncate").lengths.tolist() == [8]


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
    """On every 20th gloss, two blocks; a store that is there is mapped, and a damaged one is made again."""
    texts = WordNetTexts(*(getattr(wordnet_texts(), name)[::20] for name in WordNetTexts.__dataclass_fields__))
    monkeypatch.setenv("PACKLIB_CACHE", str(tmp_path))
    monkeypatch.setattr("packbook.shared.wordnet.wordnet_texts", lambda: texts)
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


@pytest.mark.parametrize("largest, kind", [(65_535, np.uint16), (65_536, np.int32)])
def test_the_tokens_of_a_large_vocabulary_fit_in_their_type(largest, kind):
    """Also where some numbers are left out."""
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": largest}, unk_token="a"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokens = tokenize(PreTrainedTokenizerFast(tokenizer_object=model), ["a b", "b"])
    assert tokens.input_ids.tolist() == [0, largest, largest] and tokens.input_ids.dtype == kind
