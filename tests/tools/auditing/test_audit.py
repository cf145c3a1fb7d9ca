"""`audit`: counts of packs that others made, compared with plain loops, and with what users of other libraries met."""

import json
import pickle
import struct
import subprocess
import sys

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given, settings
from hypothesis import strategies as st
from trl import pack_dataset

from packlib.lengths import LengthHistogram
from packlib.packing import plan
from packlib.tools import cli
from packlib.tools.auditing import audit
from packlib.work import Work

PACKS = st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=5), min_size=1, max_size=20)
SHORT = settings(max_examples=25, deadline=None)


def columns(packs, kind="seq_lengths"):
    """Packs of sequences with these lengths, in the columns of one format."""
    if kind == "seq_start_id":  # with the last token, which is a label only
        longer = [[length + 1 for length in pack] for pack in packs]
        starts = [np.cumsum([0, *pack[:-1]]).tolist() for pack in longer]
        return {"input_ids": [[7] * sum(pack) for pack in longer], kind: starts}
    borders = {
        "seq_lengths": packs,
        "cu_seqlens": [np.cumsum([0, *pack]).tolist() for pack in packs],
        "position_ids": [[at for length in pack for at in range(length)] for pack in packs],
    }
    return {"input_ids": [[7] * sum(pack) for pack in packs], kind: borders[kind]}


KINDS = ("seq_lengths", "cu_seqlens", "position_ids", "seq_start_id")


def written(path, found, **options):
    pq.write_table(pa.table(found), path, **options)
    return path


def by_hand(source, packed):
    """What two lists of lengths prove, by crossing out one after the other."""
    left, extra = list(source), 0
    for length in packed:
        if length in left:
            left.remove(length)
        else:
            extra += 1
    return len(left), extra


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("audit") / "packed.parquet"


@pytest.mark.parametrize("kind", KINDS)
@SHORT
@given(packs=PACKS, more=st.integers(0, 9), group=st.integers(1, 30))
def test_every_format_counts_as_a_plain_loop_does(place, kind, packs, more, group):
    top = max(map(sum, packs)) + more
    found = audit(written(place, columns(packs, kind), row_group_size=group), max_length=top)
    lengths = [length for pack in packs for length in pack]
    assert (found.borders, found.packs, found.sequences) == (kind, len(packs), len(lengths))
    assert (found.tokens, found.deepest) == (sum(lengths), max(map(len, packs)))
    assert found.padding_slots == sum(top - sum(pack) for pack in packs)
    best = plan(LengthHistogram.from_lengths(lengths, top))
    assert best.num_packs - best.gap >= found.lower_bound >= -(-sum(lengths) // top)
    assert found.gap == len(packs) - found.lower_bound >= 0 and found.lpfhp_packs >= best.num_packs


@SHORT
@given(packs=PACKS, source=st.lists(st.integers(1, 15), min_size=1, max_size=60))
def test_what_lengths_prove_beside_the_source(place, packs, source):
    lengths = [length for pack in packs for length in pack]
    found = audit(written(place, columns(packs)), source).source
    not_whole, extra = by_hand(source, lengths)
    assert (found.sequences_not_whole, found.pieces_or_repeats) == (not_whole, extra)
    assert found.tokens_lost - found.tokens_added == sum(source) - sum(lengths)
    assert found.sequences_lost == max(0, len(source) - len(lengths))
    assert (found.as_if == "nothing was lost, cut or repeated") == (sorted(source) == sorted(lengths))


@SHORT
@given(
    packs=PACKS,
    tail=st.lists(st.integers(0, 4), min_size=20, max_size=20),
    first=st.sampled_from([0, 2]),
    left=st.booleans(),
)
def test_padding_in_the_rows_is_no_sequence(place, packs, tail, first, left):
    found = columns(packs, "position_ids")
    rows = list(zip(packs, tail, found["position_ids"], strict=False))
    side = -1 if left else 1
    found["position_ids"] = [([at + first for at in row][::side] + [5] * n)[::side] for _, n, row in rows]
    found["attention_mask"] = [([1] * sum(pack) + [0] * n)[::side] for pack, n, _ in rows]
    found["input_ids"] = found["attention_mask"]
    seen = audit(written(place, found))
    assert (seen.sequences, seen.tokens) == (sum(map(len, packs)), sum(map(sum, packs)))
    assert seen.max_length == max(sum(pack) + padding for pack, padding, _ in rows)
    stored = sum(padding for _, padding, _ in rows)
    assert any(f"hold {stored:,} tokens of padding" in note for note in seen.notes) == (stored > 0)
    assert not seen.problems or "position" not in str(seen.problems)


CAUSES = {  # of sequences of 3, 3, 5, 9, 14 and 14 tokens
    "were cut to it": ([3, 3, 5, 6, 6, 6], {"tokens_lost": 19, "sequences_not_whole": 3, "sequences_lost": 0}),
    "were split into pieces": ([3, 3, 5, 7, 2, 7, 7, 7, 7], {"tokens_lost": 0, "pieces_or_repeats": 6}),
    "were left out": ([3, 3, 5], {"tokens_lost": 37, "sequences_lost": 3}),
    "came 3 times": ([3, 3, 5, 9, 14, 14] * 3, {"tokens_added": 96, "pieces_or_repeats": 12}),
    "nothing was lost": ([14, 3, 3, 5, 9, 14], {"tokens_lost": 0, "sequences_not_whole": 0}),
    "": ([3, 5, 9, 13, 14], {"tokens_lost": 4, "sequences_lost": 1, "sequences_not_whole": 2}),
}


@pytest.mark.parametrize("as_if", CAUSES)
def test_a_cause_that_explains_all_is_named(place, as_if):
    lengths, numbers = CAUSES[as_if]
    rows = columns([[length] for length in lengths])
    found = audit(written(place, rows), [3, 3, 5, 9, 14, 14], tolerance=9)
    assert as_if in found.source.as_if and bool(as_if) == bool(found.source.as_if)
    assert {name: getattr(found.source, name) for name in numbers} == numbers
    assert bool(found.problems) == (as_if != "nothing was lost")


def test_trl_3887_nothing_was_packed(place):
    # https://github.com/huggingface/trl/issues/3887: for max_length 2^n + 1 each sequence stayed alone
    lengths = np.random.default_rng(0).normal(40, 5, 3000).astype(int).clip(1, 82)
    found = audit(written(place, columns(lengths[:, None].tolist())), lengths, max_length=83)
    assert (found.packs, found.deepest, found.source.tokens_lost) == (3000, 1, 0) and found.lpfhp_packs < 1600
    assert len(found.problems) == 1 and "Nothing is packed" in found.problems[0]
    packs = plan(LengthHistogram.from_lengths(lengths, 83), method="lpfhp").assign(lengths)
    repaired = columns([lengths[ids].tolist() for ids in packs])
    assert audit(written(place, repaired), lengths, max_length=83).problems == ()


def test_trl_wrapped_cannot_tell_sequences_apart():
    rows = Dataset.from_dict({"input_ids": [[1] * 13, [2] * 11, [3] * 4]})
    found = audit(pack_dataset(rows, 10, "wrapped"), [13, 11, 5], batch_size=1, steps=3)
    assert (found.packs, found.sequences, found.lower_bound, found.lpfhp_packs) == (3, None, 3, None)
    assert (found.source.tokens_lost, found.source.sequences_not_whole) == (1, None)
    assert any("Where sequences begin is unknown" in sentence for sentence in found.unknown)


@pytest.mark.parametrize("column", ["labels", "completion_mask", "assistant_masks"])
def test_packs_of_trl_keep_the_labels_of_first_tokens_and_pass(column):
    rng = np.random.default_rng(4)
    ids = [rng.integers(5, 900, length).tolist() for length in rng.integers(1, 30, 60)]
    trained = [(rng.random(len(row)) < 0.6).astype(int).tolist() for row in ids]
    labels = [[t if its else -100 for t, its in zip(*pair, strict=True)] for pair in zip(ids, trained, strict=True)]
    rows = Dataset.from_dict({"input_ids": ids, column: labels if column == "labels" else trained})
    for strategy, rule in (("bfd", "truncate"), ("bfd_split", "split")):
        packed = pack_dataset(rows, 20, strategy)
        found = audit(packed, rows, max_length=20, overlong=rule)
        assert (found.problems, found.unknown, found.source.labels) == ((), (), ())
        assert found.source.cut.sequences == sum(len(row) > 20 for row in ids)
        assert audit(packed, rows, max_length=20).problems
    changed = packed.to_dict()
    changed[column] = [[-100 if column == "labels" else 0] * len(row) for row in changed[column]]
    changed[column][0] = packed[0][column]
    found = audit(Dataset.from_dict(changed), rows, max_length=20, overlong="split")
    assert f"({column} beside {column} of the source)" in found.problems[0]


def test_marin_7130_epochs_of_packs():
    # https://github.com/marin-community/marin/issues/7130: steps of one epoch of rows were 6.5 epochs of packs
    packs = [[2] * 13, [2] * 13] * 64
    found = audit(Dataset.from_dict(columns(packs)), batch_size=2, ranks=2, steps=416)
    assert (found.updates.updates_per_epoch, found.updates.updates_by_sequences, found.updates.epochs) == (32, 416, 13)
    assert len(found.problems) == 1 and "416 steps are 13.0 epochs" in found.problems[0]
    assert "1 epoch of the packs take 32 steps" in found.problems[0]
    assert audit(Dataset.from_dict(columns(packs)), batch_size=4, steps=32).problems == ()


@pytest.mark.parametrize(("sequences", "warned"), [(105, False), (106, True)])
def test_steps_are_counted_by_sequences_where_they_are_five_percent_more_than_by_packs(sequences, warned):
    packs = [[1, 1]] * (sequences - 100) + [[2]] * (200 - sequences)
    found = audit(Dataset.from_dict(columns(packs)), batch_size=1, steps=sequences)
    assert found.packs == 100 and any("steps are 1.1 epochs" in problem for problem in found.problems) is warned


def test_the_least_is_that_of_the_depth_limit():
    packed = Dataset.from_dict(columns([[2, 2], [2, 2]]))
    assert [audit(packed, max_sequences_per_pack=depth).lower_bound for depth in (None, 2, 1)] == [2, 2, 4]


@settings(max_examples=10, deadline=None)  # each deals packs to ranks a thousand times
@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 4), st.integers(1, 4))
def test_updates_are_those_of_accelerate(packs, batch, accumulation, ranks):
    from accelerate.data_loader import BatchSamplerShard
    from torch.utils.data import BatchSampler

    found = audit(
        Dataset.from_dict({"seq_lengths": [[1]] * packs}), batch_size=batch, ranks=ranks, tolerance=99, max_length=1,
        gradient_accumulation_steps=accumulation,
    ).updates  # fmt: skip
    batches = BatchSampler(range(packs), batch, False)  # one rank takes it as it is
    shards = [list(BatchSamplerShard(batches, ranks, rank)) for rank in range(ranks)] if ranks > 1 else [list(batches)]
    assert found.updates_per_epoch == -(-len(shards[0]) // accumulation)
    assert found.packs_repeated == sum(len(rows) for shard in shards for rows in shard) - packs


def test_lengths_that_end_in_a_heap_are_noted(place):
    found = audit(written(place, columns([[20]] * 5 + [[3, 4], [5, 6]])))
    assert any("exactly the longest length: 5" in note for note in found.notes)


def nemo_file(path, packs):
    rows = pa.table(columns(packs, "seq_start_id")).to_pylist()
    np.save(path, [row | {"loss_mask": [1] * len(row["input_ids"])} for row in rows])
    return path


def test_nemo_npy_is_read_and_nothing_in_it_is_run(tmp_path):
    packs = [[3, 4], [8], [1, 2, 3]]
    found = audit(nemo_file(tmp_path / "packed.npy", packs), source=[4, 5, 9, 2, 3, 4])
    assert (found.borders, found.sequences, found.tokens, found.max_length) == ("seq_start_id", 6, 21, 8)
    assert found.source.as_if == "nothing was lost, cut or repeated"
    bad = tmp_path / "bad.npy"
    whole = (tmp_path / "packed.npy").read_bytes()

    class Evil:
        def __reduce__(self):
            return print, ("run",)

    bad.write_bytes(whole[: whole.index(b"\n") + 1] + pickle.dumps([Evil()], 4))
    with pytest.raises(ValueError, match=r"builtins\.print, which is never run"):
        audit(bad)
    bad.write_bytes(whole[:-40])
    with pytest.raises(ValueError, match="no list of packs as NeMo saves it"):
        audit(bad)


def nested():
    """2 to the power of 40 numbers in 41 lists."""
    made = [0]
    for _ in range(40):
        made = [made, made]
    return made


ENDLESS = {
    "nested starts": (nested(), [1, 2]), "nested tokens": ([0], nested()), "a mapping": ({"a": nested()}, [1]),
    "repeated": ([0] * 1000, [1]),
}  # fmt: skip


@pytest.mark.parametrize("case", ENDLESS)
def test_a_small_file_cannot_stand_for_endless_lists(tmp_path, monkeypatch, case):
    """A pickle refers to a list that it holds already; nothing may look into all that such a one stands for."""
    starts, ids = ENDLESS[case]
    pack = {"input_ids": ids, "loss_mask": [1], "seq_start_id": starts}
    np.save(tmp_path / "bad.npy", np.array([pack] * 50, object), allow_pickle=True)
    monkeypatch.setattr(pa, "table", lambda *_: pytest.fail("must not look into it"))
    with pytest.raises(ValueError, match=r"no list of packs as NeMo saves it: (seq_start_id and|it repeats)"):
        audit(tmp_path / "bad.npy")


def megatron_file(path, lengths, tokens=None, code=4, size=4):
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(lengths), len(lengths) + 1)
    pointers = np.cumsum([0, *lengths[:-1]]) * size
    arrays = np.array(lengths, "<i4"), pointers.astype("<i8"), np.arange(len(lengths) + 1, dtype="<i8")
    path.write_bytes(head + b"".join(array.tobytes() for array in arrays))
    path.with_suffix(".bin").write_bytes(bytes(size * (sum(lengths) if tokens is None else tokens)))
    return path


def test_megatron_cuts_when_it_loads(tmp_path):
    path = megatron_file(tmp_path / "text.idx", [5, 9, 30, 4])
    for name in (path, path.with_suffix(".bin")):
        found = audit(name, [5, 9, 30, 4], max_length=8)
        assert (found.packs, found.tokens, found.sequences) == ((48 - 1) // 8, 40, 4)
        assert any(
            "leaves 8 tokens out" in note and "does not say which sequences are cut" in note for note in found.notes
        )
    with pytest.raises(ValueError, match="max_length must be given for Megatron"):
        audit(path)
    packed = Dataset.from_dict(columns([[5, 9], [30, 4]]))
    assert audit(packed, path).source.as_if == "nothing was lost, cut or repeated"


@pytest.mark.parametrize("code, kind", [(1, "u1"), (2, "i1"), (3, "i2"), (4, "i4"), (5, "i8"), (8, "u2")])
def test_megatron_has_a_code_for_each_type_of_token(tmp_path, code, kind):
    """As `DType` of its indexed_dataset.py has them; vocabularies below 65,500 are stored as uint16."""
    size = np.dtype(kind).itemsize
    assert audit(megatron_file(tmp_path / "text.idx", [5, 9], code=code, size=size), max_length=8).sequences == 2
    with pytest.raises(ValueError, match=rf"its tokens take {14 * size} bytes, but .*text\.bin has {13 * size}"):
        audit(megatron_file(tmp_path / "text.idx", [5, 9], 13, code, size), max_length=8)


REFUSED = {
    "which is not there": ({}, {"data": "nowhere.parquet"}, "There is no file nowhere.parquet"),
    "several": ({}, {"data": DatasetDict(a=Dataset.from_dict({"seq_lengths": [[1]]}))}, "data must be the path"),
    "frame": ({}, {"data": pandas.DataFrame({"seq_lengths": [[1]]})}, "data must not be a pandas frame: pass datasets"),
    "frame as a source": ({"seq_lengths": [[1]]}, {"source": pandas.DataFrame({"input_ids": [[1]]})},
                          "source must not be a pandas frame: pass datasets"),
    "no format": ({}, {"data": __file__}, "it is neither Parquet"),
    "no column": ({"tokens": [[1]]}, {}, "must have one of seq_lengths, .* not tokens"),
    "text": ({"seq_lengths": ["a"]}, {}, "'seq_lengths' must hold lists of whole numbers, not string"),
    "no bound": ({"cu_seqlens": [[0, 3], []]}, {}, "row 1 has no cu_seqlens"),
    "uneven": ({"position_ids": [[0, 1]], "input_ids": [[1]]}, {}, "row 0 has not as many input_ids"),
    "empty": ({"seq_lengths": [[0]]}, {}, "must fill a pack, not hold 1 rows with 0 tokens"),
    "no batch": ({"seq_lengths": [[1]]}, {"steps": 3}, "batch_size must be given"),
    "column alone": ({"seq_lengths": [[1]]}, {"column": "n"}, "column must be left out without a source, not 'n'"),
    "work": ({"seq_lengths": [[1]]}, {"work": Work.decoder()}, "ranks must be at least 2 where the work of a model"),
    "no work": ({"seq_lengths": [[1]]}, {"work": 3}, "work must be Work, not 3"),
}  # fmt: skip


@pytest.mark.parametrize("columns, arguments, said", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_counted_is_refused(place, columns, arguments, said):
    if columns:
        arguments = {"data": written(place, columns), **arguments}
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=said) as error:
        audit(**arguments)
    assert "\n" not in str(error.value)


def test_a_column_that_comes_twice_is_refused(tmp_path):
    names = ["input_ids", "seq_lengths", "input_ids"]
    pq.write_table(pa.Table.from_arrays([pa.array([[2]])] * 3, names=names), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet has 2 columns named input_ids; one is needed"):
        audit(tmp_path / "x.parquet")


def test_a_damaged_file_is_named(place):
    written(place, columns([[3, 4]] * 5000, "position_ids"), compression="none")
    damaged, whole = place.with_name("damaged.parquet"), place.read_bytes()
    half = len(whole) // 2
    holed = whole[:2000] + bytes(half) + whole[2000 + half :]
    for part in (whole[:2000], holed, whole[:-20] + b"x" * 12 + whole[-8:]):
        damaged.write_bytes(part)
        with pytest.raises(ValueError, match=r"damaged\.parquet is no whole file of packs") as error:
            audit(damaged)
        assert "\n" not in str(error.value)


def test_the_command_prints_a_table_or_json_and_has_an_exit_code(place, tmp_path, capsys):
    written(place, columns([[4, 2], [8]]))
    lengths = place.with_name("lengths.csv")
    lengths.write_text("4\n2\n9\n")
    assert cli.main(["audit", str(place), "--no-progress"]) == 0
    said = capsys.readouterr().out
    assert "padding slots  2 (12.50 %)" in said and "No problem was found." in said
    assert "is unknown without a source" in said
    arguments = ["audit", str(place), "--source", str(lengths), "--batch-size", "1", "--json", "--no-progress"]
    assert cli.main(arguments) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["padding_slots"], found["gap"], found["source"]["tokens_lost"]) == (2, 0, 1)
    assert found["updates"]["updates_per_epoch"] == 2 and len(found["problems"]) == 1
    assert cli.main(["audit", str(lengths)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    found = audit(place)
    found.save(tmp_path / "audit.json")
    assert found.to_json() + "\n" == (tmp_path / "audit.json").read_text()
    assert "<td>padding slots</td><td>2 (12.50 %)</td>" in found._repr_html_()


def test_an_audit_loads_no_torch_and_holds_a_part_of_the_file(tmp_path):
    rows = 40_000
    lengths, ids = np.full(4 * rows, 64, np.int32), np.random.default_rng(0).integers(0, 30_000, 256 * rows, np.int32)
    table = pa.table({
        name: pa.ListArray.from_arrays(np.linspace(0, len(values), rows + 1).astype(np.int32), pa.array(values))
        for name, values in (("input_ids", ids), ("seq_lengths", lengths))
    })  # fmt: skip
    code = (
        "import resource, sys, packlib\n"
        "def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "packlib.audit(sys.argv[1]); before = most(); found = packlib.audit(sys.argv[2])\n"
        "print(found.packs, 'torch' in sys.modules, most() - before)"
    )
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    pq.write_table(table.slice(0, rows // 4), small)
    pq.write_table(table, large, row_group_size=rows // 4)
    done = subprocess.run([sys.executable, "-c", code, small, large], capture_output=True, text=True, check=True)
    packs, loaded, more = done.stdout.split()
    assert (packs, loaded) == (str(rows), "False") and int(more) * 1024 < ids.nbytes / 2


def test_a_source_without_tokens_is_counted_and_its_empty_row_named(place):
    written(place, columns([[2, 1]]))
    words = place.with_name("words.parquet")
    written(words, {"input_ids": [["a", "b"], ["c"]]})
    assert audit(place, words).source.as_if == "nothing was lost, cut or repeated"
    written(words, {"input_ids": [[1, 2], [], [3]]})
    with pytest.raises(ValueError, match="Length 0 at row 1 of source is not allowed"):
        audit(place, words)
