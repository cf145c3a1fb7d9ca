"""Advice for a histogram of lengths: what was tried, what was found, what to change. It needs no Jupyter."""
