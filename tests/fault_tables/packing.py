"""Faults in counting, planning and assigning. By file: what is there, what it becomes, which tests see it."""

DOCUMENTS = "packing/test_documents.py::test_pieces_and_counts_are_those_of_plain_loops"

FAULTS = {
    "packlib/lengths/counting.py": [
        (
            "np.count_nonzero(part > limit)",
            "np.count_nonzero(part >= limit)",
            "lengths/test_histogram.py::test_overlong_sequences_are_cut_or_left_out_and_counted",
        ),
        (
            "part[: len(counts)] += counts",
            "part[: len(counts) - 1] += counts[:-1]",
            "lengths/test_histogram.py::test_chunks_count_as_the_whole",
        ),
        (
            "argsort(counts - shares",
            "argsort(shares - counts",
            "lengths/test_histogram.py::test_apportion_is_whole_adds_up_and_stays_within_one",
        ),
    ],
    "packlib/lengths/histogram.py": [
        (
            "counts[-1] += over",
            "counts[-1] += over > 0",
            "lengths/test_histogram.py::test_overlong_sequences_are_cut_or_left_out_and_counted "
            "lengths/test_histogram.py::test_what_was_lost_before_stays_counted",
        ),
        (
            "whole_number(lost, checked[lost], 0, INT64_MAX)",
            "checked[lost]",
            "lengths/test_histogram.py::test_bad_settings_are_named",
        ),
        (
            "truncated=self.truncated + other.truncated",
            "truncated=max(self.truncated, other.truncated)",
            "lengths/test_histogram.py::test_adding_keeps_the_least_certain_kind_and_sees_overflow",
        ),
        ('        text("name", self.name)\n', "", "lengths/test_histogram.py::test_bad_settings_are_named"),
        (
            "truncated = self.truncated + over * (",
            "truncated = over * (",
            "lengths/test_histogram.py::test_what_was_lost_before_stays_counted",
        ),
    ],
    "packlib/lengths/histogram_json.py": [
        (
            "if any(one >= other for",
            "if any(one > other for",
            "packing/test_plans.py::test_what_a_file_holds_is_taken_exactly_or_refused",
        )
    ],
    "packlib/lengths/waste.py": [
        (
            "_at_most(ranks - 1, total",
            "_at_most(ranks, total",
            "lengths/test_waste.py::test_random_batches_cost_the_mean_over_every_order",
        ),
        (
            "rest * int(np.flatnonzero(histogram.counts)[-1])",
            "rest * int(np.flatnonzero(histogram.counts)[0])",
            "lengths/test_waste.py::test_sorted_and_maximum_are_exact",
        ),
    ],
    "packlib/packing/documents.py": [
        ("(ends - 1) // max_length", "ends // max_length", f"{DOCUMENTS}[wrapped]"),
        (
            "ranges(np.zeros_like(count), count) * max_length",
            "ranges(np.zeros_like(count), count)",
            f"{DOCUMENTS}[split]",
        ),
        ("lengths <= max_length)", "lengths < max_length)", f"{DOCUMENTS}[drop]"),
        ("lengths[holding] % (2 * power)", "lengths[holding] % power", f"{DOCUMENTS}[powers_of_two]"),
        ("(self._pieces_of > 0) & (", "(self._pieces_of > 1) & (", f"{DOCUMENTS}[truncate]"),
        ("/ self.tokens - 1) / 2", "/ self.tokens) / 2", f"{DOCUMENTS}[split]"),
        (
            "(_checked(lengths) - 1) // top",
            "_checked(lengths) // top",
            "packing/test_documents.py::test_the_least_number_of_cuts_is_that_of_all_ways_to_cut",
        ),
        (
            "ends > self.document_lengths[documents]",
            "starts > self.document_lengths[documents]",
            "packing/test_documents.py::test_rows_that_are_wrong_are_seen",
        ),
        (
            "for at in range(0, len(self.lengths), 1024))",
            "for at in [0])",
            "packing/test_documents.py::test_squares_that_overflow_are_exact",
        ),
    ],
    "packlib/packing/plans.py": [
        (
            "self.deepest > limit:",
            "self.deepest > limit + 1:",
            "packing/test_plans.py::test_a_pack_one_over_the_depth_limit_is_seen",
        ),
        (
            "<= INT64_MAX else object",
            "<= INT64_MAX else np.int64",
            "packing/test_plans.py::test_sums_that_wrap_around_in_64_bits_are_seen",
        ),
    ],
    "packlib/packing/certificate.py": [
        (
            "alone - (alone - sequences[short])",
            "alone - 1 - (alone - sequences[short])",
            "packing/test_plans.py::test_a_greedy_plan_that_is_the_best_says_so",
        ),
        (
            "bounds = [alone - (tokens",
            "bounds = [alone + 1 - (tokens",
            "packing/test_plans.py::test_what_sums_prove_is_true_and_knows_depth_and_long_sequences",
        ),
    ],
    "packlib/packing/relaxed_knapsack.py": [
        (
            "items // grid, prices[items]",
            "-(-items // grid), prices[items]",
            "packing/test_long_rows.py::test_no_pack_is_worth_more_than_the_relaxed_best",
        ),
        (
            "slopes.append(-((y0 - y1) // (x1 - x0)))",
            "slopes.append((y1 - y0) // (x1 - x0))",
            "packing/test_long_rows.py::test_the_fluid_lies_over_all_prices_and_is_concave",
        ),
    ],
    "packlib/packing/greedy.py": [
        (
            "(space := packs.spaces.smallest(length))",
            "(space := packs.spaces.largest(top)) >= length",
            "packing/test_greedy.py::test_lpfhp_is_best_fit_decreasing",
        ),
        ("while n and space >= length:", "while n and space > length:", "packing/test_greedy.py::test_spfhp_by_hand"),
    ],
    "packlib/packing/packs.py": [
        (
            "default_rng([seed, length])",
            "default_rng([seed])",
            "packing/test_packs.py::test_the_seed_permutes_samples_of_equal_length",
        ),
        (
            "place[few] + pack * sizes[few]",
            "place[few] + pack",
            "packing/test_packs.py::test_each_sample_lands_in_one_pack_of_its_plan",
        ),
        ("drawn[i]", "drawn[i] // 2", "packing/test_packs.py::test_every_order_of_equal_samples_is_as_likely"),
    ],
    "packlib/packing/lpt.py": [
        ("_SCARCE = 1.05", "_SCARCE = 0.5", "packing/test_greedy.py::test_lpt_gives_each_long_sequence_its_short_ones")
    ],
    "packlib/packing/leveling.py": [
        (
            "groups[n, PACKS] = now",
            "groups[n, PACKS] = now + 1",
            "packing/test_greedy.py::test_lpt_gives_each_long_sequence_its_short_ones",
        )
    ],
    "packlib/packing/compiled.py": [
        (
            "if seconds_left() < _COMPILING:",
            "if False:",
            "packing/test_compiled.py::test_what_is_not_compiled_yet_is_left_out_where_time_is_limited",
        )
    ],
    "packlib/packing/clock.py": [
        (
            "min(_ends.get(), time.perf_counter() + seconds)",
            "time.perf_counter() + seconds",
            "packing/test_compiled.py::test_a_limit_within_a_limit_gives_no_more_time",
        )
    ],
    "packlib/packing/long_rows.py": [
        (
            " - (pack[-1] == 0)",
            "",
            "packing/test_long_rows.py::test_many_sequences_are_packed_by_those_that_stand_for_them",
        ),
        (
            "max(self.writing, _SLOW * (time.perf_counter() - before))",
            "self.writing",
            "packing/test_long_rows.py::test_the_time_is_kept",
        ),
    ],
    "packlib/packing/optimal.py": [
        (
            "EXACT_STEPS if exact else _STEPS_A_ROUND",
            "_STEPS_A_ROUND",
            "packing/test_optimal.py::test_up_to_a_thousand_lengths_are_packed_to_the_bound_at_a_high_depth_limit",
        ),
        (
            "if worth * self.pack_worth > self.worth * best:",
            "if -(-worth // best) > self.lower_bound:",
            "packing/test_optimal.py::test_prices_that_prove_a_fraction_more_are_kept",
        ),
        ("left.sum() <= _EXCHANGED:", "False:", "packing/test_optimal.py::test_these_depths_cost_next_to_nothing"),
        (" or self.time_left() <= 0", "", "packing/test_optimal.py::test_without_time_no_linear_program_is_begun"),
        (
            "if solved and not self.done():\n            self.sharpen()",
            "if solved:\n            pass",
            "packing/test_optimal.py::test_huge_counts_are_packed_to_the_bound",
        ),
        (
            "if self.master.unit == 1 and self.master.fewest",
            "if self.master.fewest",
            "packing/test_optimal.py::test_huge_counts_are_packed_to_the_bound",
        ),
        (
            "if self.master.unit < unit:",
            "if False:",
            "packing/test_optimal.py::test_rare_lengths_beside_very_frequent_ones_are_seen",
        ),
    ],
    "packlib/packing/knapsack.py": [
        ('side="right"', 'side="left"', "packing/test_optimal.py::test_knapsack_against_all_packs")
    ],
    "packlib/packing/swapping.py": [
        (
            "<= max_length and waiting <= limit:\n            packs",
            "<= max_length:\n            packs",
            "packing/test_swapping.py::test_what_is_found_keeps_every_limit",
        ),
        (
            "rooms[pack] -= most",
            "rooms[pack] += most",
            "packing/test_swapping.py::test_what_is_found_keeps_every_limit",
        ),
        (
            "while steps > 0 and seconds_left() > 0:",
            "while steps > 0:",
            "packing/test_swapping.py::test_it_stops_when_the_time_is_up",
        ),
    ],
    "packlib/packing/master.py": [
        ("TOLERANCE * self.unit)", "TOLERANCE)", "packing/test_optimal.py::test_the_solver_is_as_exact_as_its_unit"),
        (
            "self.unit = float_unit(counts)",
            "self.unit = 1",
            "packing/test_optimal.py::test_rare_lengths_beside_very_frequent_ones_are_seen",
        ),
    ],
    "packlib/packing/baselines.py": [
        (
            "if histogram.num_sequences > _MOST_ONE_BY_ONE:",
            "if False:",
            "packing/test_plans.py::test_counts_up_to_64_bits_are_packed_exactly_or_refused[counts0-next_fit]",
        ),
        (
            "or len(pack) == max_sequences_per_pack:",
            "or len(pack) == (max_sequences_per_pack or 0) + 1:",
            "packing/test_greedy.py::test_next_fit_takes_an_order",
        ),
    ],
    "packlib/packing/plan_json.py": [
        (
            "not least <= bound <= plan",
            "not bound <= plan",
            "packing/test_plans.py::test_the_bound_of_a_file_is_the_proven_one",
        ),
        (
            "if written == FORMATS[1]:",
            "if written:",
            "packing/test_plans.py::test_the_bound_of_a_file_is_the_proven_one",
        ),
    ],
}
