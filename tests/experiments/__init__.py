"""Training experiments on real text, recorded in data/runs/: `python -m tests.experiments NAME`."""
