"""The search for the fewest packs. Read first `optimal.py`; `bound.py` proves that no plan has fewer packs."""
