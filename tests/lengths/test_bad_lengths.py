"""What the functions of lengths refuse, in one sentence each; `test_sources_files.py` has what files may hold."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from packbook.shared.habits import make_batches
from packlib.lengths import LengthHistogram, load, log_normal, padding_waste
from packlib.lengths.counting import MAX_LENGTH
from packlib.lengths.synthetic import image_patch_like, protein_like, two_humped, uniform
from packlib.packing import plan
from packlib.tools.advice import advise

counted, of = LengthHistogram, LengthHistogram.from_lengths

TYPES = [
    (lambda: of([3, 2.5]), "Length 2.5 at position 1 is not a whole number"),
    (lambda: of(np.array([3.0])), "Lengths must be integers, not float64: convert them with .astype"),
    (lambda: of([1] * 9 + ["x" * 10**6]), r"Length 'x+ … \(1000002 characters\) at position 9"),
    (lambda: of(pd.DataFrame({"n": [3]})), r"Lengths must be one column .* not a DataFrame with n: pass .*'n'\]"),
    (lambda: plan(pa.table({"n": [3], "m": [4]})), r"Lengths must be one column .* not a Table with n, m: pass"),
    (lambda: advise(pd.DataFrame({"input_ids": [[3]]})), "or how many tokens each row has"),
    (lambda: of(7), "an array or a list of whole numbers, not 7"),
    (lambda: of([1], 2.0), "max_length must be"),
    (lambda: counted([0, 1.5]), "Count 1.5 at length 1 is not a whole number"),
    (lambda: counted([0, 1], truncated=True), "truncated must be .*at least 0"),
    (lambda: counted([0, 1], name=["a"]), r"name must be text, not \['a'\]"),
    (lambda: counted([0, 1], source=["a"]), r"source must be text, not \['a'\]"),
    (lambda: padding_waste([3], 2.5), "batch_size must be a whole number"),
    (lambda: list(make_batches([3], 2.5)), "batch_size must be a whole number"),
]
VALUES = [
    (lambda: of([]), "There are no lengths"),
    (lambda: of([3, 0]), "Length 0 at position 1 is not allowed: lengths start at 1"),
    (lambda: of([[1, 2], [3, 4]]), r"one dimension, not the shape \(2, 2\)"),
    (lambda: of([[1, 2], [3]]), "not lists of them"),
    (lambda: of([1, 2**70]), f"Length {2**70} at position 1 does not fit in 64 bits"),
    (lambda: of(np.array([1, 2**63], np.uint64)), f"Length {2**63} at position 1 is over {MAX_LENGTH}"),
    (lambda: of([1], 1, overlong="truncat"), "'truncat': did you mean 'truncate'"),
    (lambda: counted([0, 1]).with_max_length(0), "max_length must be"),
    (lambda: counted([0, 1], max_length=MAX_LENGTH + 1), "max_length must be"),
    (lambda: counted([0, 1, 0, 1], max_length=2), "Length 3 is over the maximum length 2"),
    (lambda: counted([0, 0]), "holds no sequence"),
    (lambda: counted([0, -2]), "length 1 has -2"),
    (lambda: counted([4, 1]), "4 sequences have length 0"),
    (lambda: counted([0, 10**5000]), "Count an integer of 16610 bits at length 1 does not fit in 64 bits"),
    (lambda: counted(np.array([0, 2**63], np.uint64)), f"Count {2**63} at length 1 does not fit"),
    (lambda: counted([0, 0, 2**62]), f"holds {2**63} tokens"),
    (lambda: counted([0, 1], truncated=-5), "truncated must be .*at least 0"),
    (lambda: counted([0, 1], dropped=2**63), "dropped must be .*at least 0"),
    (lambda: counted([0, 1], kind="guess"), "kind must be 'measured', 'reconstruction' or 'synthetic', not 'guess'"),
    (lambda: log_normal(sigma_log=0), "sigma_log must be above 0"),
    (lambda: log_normal(mean_log=float("nan")), "mean_log must be at least -1000000 and at most 1000000"),
    (lambda: uniform(max_length=5, shortest=6), "shortest must be from 1 to 5, not 6"),
    (lambda: two_humped(share=1.5), "share must be at least 0 and at most 1, not 1.5"),
    (lambda: two_humped(widths=(0, 1)), "a width must be above 0"),
    (lambda: protein_like(mean=1e12), "mean must be above 0 and at most 1000000"),
    (lambda: image_patch_like(sides=(64, 32)), r"sides\[1\] must be from 64"),
    (lambda: load("wikipdia"), "'wikipdia': did you mean 'wikipedia'"),
    (lambda: load("zzz"), "name_or_path, if not a file, must be 'wordnet', 'wordnet-pairs', 'docstrings'"),
    (lambda: load("squad", column="length"), "column is for files; squad is"),
    (lambda: load("wordnet", max_length=0), "max_length must be"),
    (lambda: load("squad", max_length=5, overlong="trunc"), "'trunc': did you mean 'truncate'"),
    (lambda: load("uniform", overlong="trunc"), "'trunc': did you mean 'truncate'"),
    *(
        (lambda ask=ask, given=given: list(ask([1, 2, 3], 2, **given)), says)
        for ask in (padding_waste, make_batches)
        for given, says in (
            ({"habit": "sort"}, "not 'sort': did you mean 'sorted'"),
            ({"habit": "megabatches", "window": 0}, "window must be at least 1, not 0"),
            ({"habit": "buckets", "buckets": 0}, "buckets must be at least 1, not 0"),
        )
    ),
]


@pytest.mark.parametrize(
    ("kind", "call", "says"),
    [(kind, *case) for kind, cases in ((TypeError, TYPES), (ValueError, VALUES)) for case in cases],
)
def test_bad_input_is_named(kind, call, says):
    with pytest.raises(kind, match=says):
        call()
