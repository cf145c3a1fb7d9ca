"""Dives: the solution of the linear program becomes whole packs, step by step.

Use every strategy as often as the solution says, rounded down, and solve again for the sequences that are left; where
nothing is left to round down, round some of the largest fractions up. Once few sequences are left, strategies are
generated that can be filled with these alone, and an integer program over them may end the dive. See Sadykov,
Vanderbeck, Pessoa, Tahiri and Uchoa, Primal heuristics for branch and price: the assets of diving methods (INFORMS
Journal on Computing 31, 2019).
"""

import itertools
from collections import Counter

import numpy as np

from packlib.lengths.counting import float_unit
from packlib.lengths.histogram import LengthHistogram
from packlib.packing.greedy import lpfhp
from packlib.packing.search.exact import ExactProgram, value_of
from packlib.packing.search.knapsack import fillable
from packlib.packing.search.master import TOLERANCE
from packlib.packing.search.whole_packs import FEW_NODES, choose

_LEFT = 0.45  # an integer program packs what is left, once that is at most this share of the sequences
_FEW_STRATEGIES = 200  # the most strategies of such an integer program
_STEPS_A_STRATEGY = 3000  # of such an integer program, for the deadline
_STEPS_A_PAIR = 30  # of a linear program, for each pair of lengths
_WORK = 2 * 10**9  # steps of all dives, some ten seconds
_NOISE = 0.3  # the most that is added to a fraction, in all attempts but the first


class Dives:
    """Attempts at rounding, each with other choices.

    Attributes:
        exact: the linear program that is rounded.
        work_left: steps until later attempts are not worth their time; below 0 the caller makes none.
        stages: the packs chosen so far (their lengths, how often) and the counts left, at each step of the last dive
            that began with all sequences.
    """

    def __init__(self, exact: ExactProgram) -> None:
        self.exact, self.work_left = exact, _WORK
        self.stages: list[tuple[Counter[tuple[int, ...]], np.ndarray]] = []

    def dive(self, attempt: int) -> None:
        """Round down and solve again until nothing is left, or until this cannot beat the best plan any more.

        The first attempt rounds the largest fractions up, later ones add noise to the choice. Every fourth begins with
        all sequences, the others half way through that one.

        Args:
            attempt: its number, from 0; it is also the seed of the noise.
        """
        exact, best = self.exact, self.exact.best
        noise = np.random.default_rng(attempt)
        target = best.num_packs - 1 if attempt % 2 else best.lower_bound  # by turns: any better plan, or a best one
        chosen = Counter[tuple[int, ...]]()  # packs of the plan so far: their lengths, how often
        left = exact.counts  # sequences of each length that have no pack yet
        unit = float_unit(exact.counts)
        from_start = attempt % 4 == 0 or not self.stages
        if from_start:
            self.stages = []
        else:
            chosen, left = self.stages[len(self.stages) // 2]
            chosen = chosen.copy()
        while left.any() and not exact.done() and self._solve_rest(left, target - chosen.total()):
            # as counts get smaller the solver's unit does: lengths that were too rare to be seen may prove more
            if exact.program.unit < unit:
                unit = exact.program.unit
                exact.sharpen()
            if chosen.total() + exact.program.fewest >= best.num_packs:
                break
            self._choose_rest(chosen, left, target)
            if from_start:
                self.stages.append((chosen.copy(), left))
            taken, left = exact.take(self._rounded(noise, _NOISE if attempt else 0), left, target)
            if not taken:
                break
            chosen.update(taken)
            exact.offer_with_greedy(chosen, left)

    def _rounded(self, noise: np.random.Generator, most_noise: float) -> np.ndarray:
        """Round the last solution down; if that is all 0, a fifth of the fractions over 1/2, the largest, become 1.

        Returns:
            How often each strategy is used, whole numbers; float64, shape (strategies,).
        """
        usage = self.exact.program.usage
        rounded = self.exact.program.whole_usage
        if not rounded.any():
            num_up = max(1, np.count_nonzero(usage > 0.5) // 5)
            blurred = usage + noise.uniform(0, most_noise, len(usage)) * (usage > TOLERANCE)
            rounded[np.argsort(-blurred, kind="stable")[:num_up]] = 1
        return rounded

    def _choose_rest(self, chosen: Counter[tuple[int, ...]], left: np.ndarray, target: int) -> None:
        """Pack the sequences that are left by an integer program, and offer the plan.

        It is made only if few sequences are left, and they alone can fill few strategies. Only strategies count that
        waste no more than a plan of `target` packs wastes in all, as in `ExactProgram.take`.

        Args:
            chosen: the packs chosen so far (their lengths, how often).
            left: `left[l]` sequences of length l have no pack yet; int64, shape (max_length + 1,).
            target: packs of the plan that is looked for.
        """
        exact = self.exact
        if left.sum() > _LEFT * exact.counts.sum():
            return
        most_waste = exact.total_waste(target)
        price_of = exact.price_of_each(exact.prices)
        strategies = exact.program.strategies
        candidates = [
            pack
            for pack in itertools.compress(strategies, fillable(strategies, left))
            if exact.best_pack_value - value_of(pack, price_of) <= most_waste
        ]
        if len(candidates) <= _FEW_STRATEGIES:
            self._spend(_STEPS_A_STRATEGY * len(candidates))
            packs = choose(candidates, left, target - chosen.total(), FEW_NODES, exact.is_over)
            exact.offer(chosen, packs or None)  # none, too, if no choice takes so few packs

    def _solve_rest(self, left: np.ndarray, packs: int) -> bool:
        """Solve the linear program for the sequences that are left; return False if the time was up first.

        Where they are few, only strategies count for which there are enough of them, and new ones are looked for until
        the solution takes no more than `packs`.
        """
        exact, program = self.exact, self.exact.program
        steps = _STEPS_A_PAIR * len(exact.lengths) ** 2  # about what a linear program takes
        if not exact.are_few(left):
            self.work_left -= steps
            program.allow(None)
            return exact.solve(left)
        program.add(tuple(Counter(pack).items()) for pack, _ in lpfhp(LengthHistogram(left), exact.limit))
        program.allow(left)
        while exact.solve(left):
            self.work_left -= steps + exact.fillable_steps(left)
            if program.objective <= packs + TOLERANCE or not exact.add_fillable(left):
                return True
        return False

    def _spend(self, steps: int) -> None:
        """Count steps, for the end of all dives and for the deadline."""
        self.work_left -= steps
        self.exact.deadline.spend(steps)
