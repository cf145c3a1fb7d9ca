"""What the tests of the workbook share."""

import pytest


@pytest.fixture
def displayed(monkeypatch):
    """What a notebook would be sent: for each output its texts by media type, and its metadata."""
    shown = []

    def display(bundle, raw, metadata=()):
        shown.append({**dict(metadata), **bundle, **({"metadata": metadata} if metadata else {})})

    monkeypatch.setattr("IPython.display.display", display)
    return shown
