"""Run notebooks: in place, with other parameters, many at once, and as copies for learners.

Read first `execution.py`, `run_notebook`: how one notebook is run. `running.py` makes a folder of results of it.
"""
