"""Files of integer arrays: what a stranger can write into one is refused before it is mapped."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from packlib.arrays import header, map_arrays, save_arrays
from packlib.batches import TokenStore
from packlib.packing import PackingPlan, Packs
from packlib.training import Recipe
from packlib.workbook.chapters.n09_distributed_sorting.one_file import read_ordered

OLD = Path(__file__).parents[1] / "written_by_0_1_0"


def sealed(data: bytes) -> bytes:
    return data + hashlib.sha256(data).digest()


def test_what_is_saved_is_mapped(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "some"
    kinds = ["i1", "u1", "<i2", ">i2", "<u4", ">i4", "<i8", ">u8"]
    arrays = {f"{'abcdefgh'[i]}": rng.integers(0, 99, i).astype(kind) for i, kind in enumerate(kinds)}
    save_arrays(path, "Some", arrays)
    for verify in (True, False):
        found = map_arrays(path, "Some", list(arrays), verify=verify)
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
            assert isinstance(found[name], np.memmap) or not len(array)
            assert not found[name].flags.writeable
            assert found[name].flags.aligned and found[name].dtype == array.dtype.newbyteorder("<")
    with pytest.raises(TypeError, match="a must be integers, not float64"):
        save_arrays(path, "Some", {"a": np.ones(3)})


def line(*entries: str, kind: str = "Packs", number: int = 2) -> bytes:
    return f"packlib arrays {number} {kind} {' '.join(entries)}\n".encode()


THREE = "sample_ids:<i8:1 offsets:<i8:2 lengths_used:<i8:1"
LINES = [
    (line(THREE, "max_length:|O:1"), r"its first line has 'max_length:\|O:1', which is no array of integers"),
    (line(THREE, "max_length:<f8:1"), "its first line has 'max_length:<f8:1'"),
    (line(THREE, "max_length:<i3:1"), "its first line has 'max_length:<i3:1'"),
    (line(THREE, "max_length:<i8:-1"), "its first line has 'max_length:<i8:-1'"),
    (line(THREE, "max_length:<i8:1x1"), "its first line has 'max_length:<i8:1x1'"),
    (line(THREE, "max_length:<i8:٣"), "its first line has 'max_length:<i8:"),
    (line(THREE, "offsets:<i8:2"), "its first line has 'offsets:<i8:2'"),
    (
        line(THREE, f"max_length:<i8:{10**17}"),
        "its arrays and checksum take 800,000,000,000,000,176 bytes, but it has",
    ),
    (line(THREE), "it has no max_length"),
    (line(THREE, "max_length:<i8:1 more:<i8:0"), "it has more, which this version of packlib does not know"),
    (line(THREE, "max_length:<i8:1", kind="TokenStore"), "it holds TokenStore, not Packs"),
    (line(THREE, "max_length:<i8:1", number=3), "it is in format 3; this version of packlib reads format 2 and"),
    (line(THREE, "x" * 5000), "it does not start with a line of packlib arrays"),
    (line(THREE, "max_length:<i8:1")[:-1], "it does not start with a line of packlib arrays"),
]


@pytest.mark.parametrize(("start", "says"), LINES)
def test_a_line_that_tells_of_no_integers_is_refused(tmp_path, start, says):
    path = tmp_path / "some.packs"
    path.write_bytes(sealed(start + np.array([0, 0, 1, 5, 9]).tobytes()))
    with pytest.raises(ValueError, match=f"some.packs is no whole file of packs: {says}") as refusal:
        Packs.load(path)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 600


def old(descr: str = "<i8", shape: str = "(1,)") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "first",
    [old("|O"), old("<f8"), old("<U2"), old(shape="(1, 1)"), old(shape="(-1,)"), old(shape="(4000000000000000000,)"),
     old(shape="(" * 200), old(shape="9" * 5000), old("<i8,|O"), b"\x93NUMPY\x02\x00\xff\xff\xff\xff"],
)  # fmt: skip
def test_an_old_file_is_read_with_the_same_care(tmp_path, first):
    """`|O` made the numbers of a file into pointers, which ended the process."""
    path = tmp_path / "some.packs"
    number = (7).to_bytes(8, "little")
    path.write_bytes(sealed(first + number + old(shape="(2,)") + number * 2 + 2 * (old() + number)))
    said = "its array sample_ids has the dtype|it has no header of NumPy's"
    with pytest.raises(ValueError, match=rf"some\.packs is no whole file of packs: ({said})") as refusal:
        Packs.load(path)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 600


def test_what_packlib_0_1_0_wrote_is_read_or_refused():
    packs = Packs.load(OLD / "six.packs")
    assert [pack.tolist() for pack in packs] == [[1], [3, 2], [0, 5, 4]] and packs.max_length == 6
    store = TokenStore.load(OLD / "six.tokens")
    assert store.input_ids.tolist() == list(range(17)) and store.sequence_labels[:3].tolist() == [0, 1, -100]
    assert store.labels is None and store.sample_ids.tolist() == list(range(6))
    assert Recipe.from_json(OLD / "recipe.json") == Recipe(2, 0.5, 10)
    assert PackingPlan.from_json(OLD / "plan.json").strategies == [(5,), (4, 2), (3, 2, 1)]
    said = r"rows is no whole file of rows: it was written by packlib 0\.1\.0; .* of packlib 0\.2 and later"
    with pytest.raises(ValueError, match=said):
        read_ordered(OLD / "rows")


def test_the_line_is_part_of_what_the_checksum_sees(tmp_path):
    path = tmp_path / "some"
    save_arrays(path, "Some", {"a": np.arange(4), "b": np.arange(4)})
    path.write_bytes(path.read_bytes().replace(b"a:<i8:4 b:<i8:4", b"b:<i8:4 a:<i8:4"))
    with pytest.raises(ValueError, match="the checksum differs"):
        map_arrays(path, "Some", ["a", "b"])
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(ValueError, match="its arrays and checksum take 160 bytes, but it has 164"):
        map_arrays(path, "Some", ["a", "b"], verify=False)
    assert len(header("Some", {"a": (np.dtype(np.int8), 3)})) % 64 == 0
