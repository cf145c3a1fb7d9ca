"""`from_hub` on local data sets, through `datasets` and the committed tokenizer."""

import json
import sys

import pytest

from packlib.lengths import LengthHistogram, from_hub, tokenizer_path
from packlib.workbook.chapters.shared.glosses import wordnet_texts

datasets = pytest.importorskip("datasets")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Keep the tests out of the user's cache."""
    old = datasets.config.HF_DATASETS_CACHE
    datasets.config.HF_DATASETS_CACHE = tmp_path_factory.mktemp("cache")
    yield
    datasets.config.HF_DATASETS_CACHE = old


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import BertTokenizerFast

    return BertTokenizerFast.from_pretrained(tokenizer_path())


@pytest.fixture(scope="module")
def rows():
    texts = wordnet_texts()
    return [
        {"text": texts.definition[i], "example": texts.examples[i]} for i in range(117_659) if texts.pair_tokens[i]
    ][:2500]


@pytest.fixture(scope="module")
def expected():
    texts = wordnet_texts()
    used = texts.pair_tokens > 0
    return {"text": texts.definition_tokens[used][:2500], ("text", "example"): texts.pair_tokens[used][:2500]}


@pytest.fixture(scope="module", params=["json", "parquet", "text"])
def stored(request, rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("hub") / f"rows.{request.param}"
    if request.param == "json":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif request.param == "parquet":
        datasets.Dataset.from_list(rows).to_parquet(path)
    else:
        path.write_text("\n".join(row["text"] for row in rows))
    return request.param, str(path)


def test_files_stream_through_datasets_and_the_tokenizer(stored, expected, tokenizer):
    loader, path = stored
    histogram = from_hub(loader, tokenizer, data_files=path, progress=False)
    assert histogram == LengthHistogram.from_lengths(expected["text"])
    assert histogram.name == loader and histogram.source == f"{loader}, split train, column text"
    cut = from_hub(loader, str(tokenizer_path()), data_files=path, max_length=20, batch_size=77, progress=False)
    assert cut == LengthHistogram.from_lengths(expected["text"], 20, "truncate") and cut.truncated > 0
    with pytest.raises(ValueError, match=r"at row \d+ is over the maximum length 20"):
        from_hub(loader, tokenizer, data_files=path, max_length=20, overlong="error", progress=False)


def test_pairs_and_loaded_data_sets(rows, expected, tokenizer):
    pair = ("text", "example")
    loaded = datasets.Dataset.from_list(rows)
    histogram = LengthHistogram.from_lengths(expected[pair])
    assert from_hub(loaded, tokenizer, pair, progress=False) == histogram
    assert from_hub(loaded.to_iterable_dataset(), tokenizer, pair, progress=False) == histogram
    assert from_hub(datasets.DatasetDict(train=loaded), tokenizer, pair, progress=False) == histogram


def test_one_pass_holds_one_batch(rows, tokenizer):
    """The rows are asked for in order, and no more than a batch before it is tokenized."""
    seen, sizes = [], []

    def generate():
        for row in rows[:250]:
            seen.append(row)
            yield row

    def counting_tokenizer(texts, **options):
        sizes.append(len(texts))
        assert len(seen) - sum(sizes) <= 1
        return tokenizer(texts, **options)

    streaming = datasets.IterableDataset.from_generator(generate)
    assert from_hub(streaming, counting_tokenizer, batch_size=100, progress=False).num_sequences == 250
    assert sizes == [100, 100, 50] and len(seen) == 250


def test_the_bar_counts_rows(rows, tokenizer, capsys):
    from_hub(datasets.Dataset.from_list(rows[:150]), tokenizer, batch_size=100)
    assert "150/150" in capsys.readouterr().err
    from_hub(datasets.Dataset.from_list(rows[:150]), tokenizer, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"column": "txt"}, ValueError, "not 'txt': did you mean 'text'"),
        ({"column": ("a", "b", "c")}, ValueError, "one column or a pair"),
        ({"split": "trian"}, ValueError, "not 'trian': did you mean 'train'"),
        ({"column": ("text", "number")}, TypeError, "Row 0 holds 1 instead of text"),
        ({"column": "gaps", "batch_size": 2}, TypeError, "Row 3 holds None instead of text"),
    ],
)
def test_bad_input_is_named(tokenizer, arguments, error, message):
    table = {"text": list("abcd"), "number": [1, 2, 3, 4], "gaps": ["a", "b", "c", None]}
    data = datasets.DatasetDict(train=datasets.Dataset.from_dict(table))
    with pytest.raises(error, match=message):
        from_hub(data, tokenizer, **{"progress": False, **arguments})


def test_without_datasets_the_extra_is_named(monkeypatch, tokenizer):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"from_hub needs datasets, .*pip install 'packlib\[hub\]'"):
        from_hub("json", tokenizer)
