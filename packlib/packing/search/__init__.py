"""The search for the fewest packs, and the proof of how few there can be.

In this order each file is read once, from the call of a plan to its proof:

1. `optimal.py` has the steps and their order; `best.py`, `progress.py` and `deadline.py` have what all of them share.
2. The first bound: `sums.py`. The first plans: `starts.py`, with `lpt.py` and `leveling.py`.
3. A few packs at a time are filled again: `refilling.py`.
4. Prices of all lengths come from a linear program: `exact.py`, with `master.py`, `solver.py`, `columns.py` and
   `knapsack.py`. Its solution becomes whole packs: `dives.py` and `listing.py`, with `whole_packs.py`.
5. Prices of a few lengths, and plans after them: `long_bound.py`, with `breakpoint_program.py`, `long_packs.py` and
   `packing_again.py`.
6. The proof by prices is written out and computed: `bound.py`, with `relaxed_knapsack.py`.

In all of them a sequence has a price, and the value of a pack is the sum of the prices of its sequences.

`packlib.packing.proofs` then checks the plan. `tree_bound.py` and `group_bound.py` bound the rows of trees, which
another search packs.
"""
