"""Files of integer arrays: what a stranger can write into one is refused before it is mapped."""

import hashlib

import numpy as np
import pytest

from packlib.arrays import header, map_arrays, save_arrays
from packlib.packing import Packs


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


THREE = "sample_ids:<i8:1 offsets:<i8:2 lengths:<i8:1"
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
        "its arrays and checksum take 800,000,000,000,000,168 bytes, but it has",
    ),
    (line(THREE), "it has no max_length"),
    (line(THREE, "max_length:<i8:1 more:<i8:0"), "it has more, which this version of packlib does not know"),
    (line(THREE, "max_length:<i8:1", kind="TokenStore"), "it holds TokenStore, not Packs"),
    (line(THREE, "max_length:<i8:1", number=3), "it is in format 3; this version of packlib reads format 2\\."),
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
