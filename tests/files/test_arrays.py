"""Files of integer arrays: Arrow reads them anywhere, and what a stranger can write into one is refused."""

import numpy as np
import pyarrow as pa
import pytest

from packlib.packing import Packs
from packlib.packing.arrays import map_arrays, save_arrays


def test_what_is_saved_is_mapped(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "some"
    kinds = ["i1", "u1", "<i2", ">i2", "<u4", ">i4", "<i8", ">u8"]
    arrays = {f"{'abcdefgh'[i]}": rng.integers(0, 99, i).astype(kind) for i, kind in enumerate(kinds)}
    save_arrays(path, "Some", arrays)
    for verify in (True, False):
        before = pa.total_allocated_bytes()
        found = map_arrays(path, "Some", list(arrays), verify=verify)
        assert pa.total_allocated_bytes() <= before + 4096, "the numbers stay on disk"
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
            assert not found[name].flags.writeable
            assert found[name].flags.aligned and found[name].dtype == array.dtype.newbyteorder("<")
    row = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0).to_pydict()
    assert row == {name: [array.tolist()] for name, array in arrays.items()}
    with pytest.raises(TypeError, match="a must be integers, not float64"):
        save_arrays(path, "Some", {"a": np.ones(3)})


def written(path, columns, **metadata):
    """A file as a stranger would write it."""
    batch = pa.record_batch(columns).replace_schema_metadata({"packlib": "Packs", "sha256": "?", **metadata})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, batch.schema) as out:
        out.write_batch(batch)


def lists(*rows, of=None):
    return pa.array(rows, pa.large_list(of or pa.int64()))


GOOD = {"sample_ids": lists([0]), "offsets": lists([0, 1]), "lengths": lists([5]), "max_length": lists([9])}
HOSTILE = [
    (GOOD, {"packlib": "TokenStore"}, "it holds TokenStore, not Packs"),
    (GOOD, {}, "the checksum differs"),
    ({**GOOD, "more": lists([])}, {}, "it has more, which this version of packlib does not know"),
    ({name: GOOD[name] for name in list(GOOD)[:3]}, {}, "it has no max_length"),
    ({**GOOD, "max_length": lists([9.0], of=pa.float64())}, {}, "its columns are no lists of integers"),
    ({**GOOD, "max_length": pa.array([[9]])}, {}, "its columns are no lists of integers"),
    ({**GOOD, "max_length": lists(None)}, {}, "a number is missing"),
]


@pytest.mark.parametrize(("columns", "metadata", "says"), HOSTILE)
def test_a_file_that_holds_something_else_is_refused(tmp_path, columns, metadata, says):
    path = tmp_path / "some.packs"
    written(path, columns, **metadata)
    with pytest.raises(ValueError, match=f"some.packs is no whole file of packs: {says}") as refusal:
        Packs.load(path)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 600


def test_the_checksum_sees_which_numbers_have_which_name(tmp_path):
    path = tmp_path / "some"
    save_arrays(path, "Some", {"a": np.arange(4), "b": np.arange(5)})
    metadata = {k.decode(): v for k, v in pa.ipc.open_file(pa.memory_map(str(path))).schema.metadata.items()}
    written(path, {"a": lists([0, 1, 2, 3, 4]), "b": lists([0, 1, 2, 3])}, **metadata)
    with pytest.raises(ValueError, match="the checksum differs"):
        map_arrays(path, "Some", ["a", "b"])
