"""Training experiments on real text, recorded in data/runs/: see `pretraining` and `finetuning`."""
