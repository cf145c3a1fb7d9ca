"""The order in which the search is read names each of its files once."""

import re
from pathlib import Path

from packlib.packing import search


def test_each_file_of_the_search_is_named_once():
    files = {path.name for path in Path(search.__file__).parent.glob("*.py")} - {"__init__.py"}
    assert sorted(re.findall(r"`(\w+\.py)`", search.__doc__)) == sorted(files)
