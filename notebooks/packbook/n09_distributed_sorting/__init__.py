"""Notebook 09: sort and pack what no rank holds alone."""

from packbook.parameters import Dataset, Parameters, Whole
from packlib.installed import late

PARAMETERS = Parameters(dataset=Dataset(), ranks=Whole(2, 16))
check_parameters = PARAMETERS.check

__getattr__, __dir__ = late(
    __name__,
    {
        f"{__name__}.exercises": ["check"],
        f"{__name__}.lesson": ["QUESTIONS", "BucketExplorer", "reveal"],
        "packbook.shared.histograms": ["sample_lengths"],
        "packbook.shared.spans": ["span"],
    },
)
