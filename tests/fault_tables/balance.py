"""Faults in work and balance. By file: what is there, what it becomes, which tests see it."""

_TESTS = "packing/test_balancing.py"

FAULTS = {
    "packlib/packing/work.py": [
        (
            "self.per_square * np.asarray(squares",
            "2 * self.per_square * np.asarray(squares",
            "packing/test_work.py::test_packs_plans_and_histograms_agree_about_their_work",
        ),
        ("+ 2 * queries\n", "\n", "packing/test_work.py::test_a_decoder_costs_what_its_matrix_products_do"),
        ("> INT64_MAX:", "> 2 * INT64_MAX:", "packing/test_work.py::test_squares_that_overflow_are_refused"),
    ],
    "packlib/packing/balancing.py": [
        (
            "np.argsort(rng.permutation(count))",
            "np.arange(count)",
            f"{_TESTS}::test_the_mix_of_a_step_cannot_be_told_from_a_random_deals",
        ),
        (
            "    level_steps(each, pack_of, starts, pool, step, cap, most_sequences, _EVEN, rng)\n",
            "",
            f"{_TESTS}::test_where_every_thirtieth_pack_is_cut_tokens_are_level",
        ),
        (
            "-(-steps // -(-steps // _POOL))",
            "_POOL",
            f"{_TESTS}::test_tokens_are_level_in_one_step_more_than_exchange_at_once",
        ),
        (
            "np.random.default_rng([seed, 0]).permutation",
            "np.random.default_rng([seed, 1]).permutation",
            f"{_TESTS}::test_better_than_the_random_deal_that_it_starts_from",
        ),
        (
            'found["max_sequences_per_pack"] or None',
            'found["max_sequences_per_pack"]',
            f"{_TESTS}::test_a_schedule_is_saved_and_mapped",
        ),
    ],
    "packlib/packing/random_waiting.py": [
        (
            "steps * (packs_per_rank - 1) :]",
            "steps * packs_per_rank :]",
            "packing/test_random_waiting.py::test_against_every_deal",
        )
    ],
    "packlib/packing/context_parallel.py": [
        (
            "of_chunks + of_chunks[:, ::-1])",
            "of_chunks + np.roll(of_chunks, -ranks, 1))",
            "packing/test_context_parallel.py::test_every_rank_has_the_cells_of_its_rows_of_the_mask",
        ),
        (
            "padded = -(-each // chunks) * chunks",
            "padded = -(-each // ranks) * ranks",
            "packing/test_context_parallel.py::test_every_rank_has_the_cells_of_its_rows_of_the_mask",
        ),
    ],
    "packlib/packing/balancing_loops.py": [
        (
            "done[np.argmin(done)] += one",
            "done[np.argmax(done)] += one",
            "packing/test_context_parallel.py::test_whole_sequences_are_dealt_no_worse_than_graham_proved",
        ),
        (
            "forced = tokens - (ranks - 1) * of_a_rank * cap\n",
            "forced = tokens - (ranks - 2) * of_a_rank * cap\n",
            f"{_TESTS}::test_the_bound_is_below_the_optimum_and_that_below_ours",
        ),
        (
            "first, last = n * ranks - n, n * ranks + 1",
            "first, last = 0, n + 1",
            f"{_TESTS}::test_the_bound_is_below_the_optimum_and_that_below_ours",
        ),
        ("-places[a] <= more <= places[b] and ", "", f"{_TESTS}::test_any_lengths_make_a_schedule_that_verifies"),
        (
            "tokens_b[v] <= tokens_a[u] + space[a]:",
            "tokens_b[v] <= tokens_a[u] + space[a] + 1:",
            f"{_TESTS}::test_any_lengths_make_a_schedule_that_verifies",
        ),
        ("length[i] <= space[to]", "True", f"{_TESTS}::test_near_the_bound_where_rows_are_full_to_the_last_slot"),
        (
            "                    _give_room(b, length, work, pack, space, places, links, each, rng)\n",
            "",
            f"{_TESTS}::test_near_the_bound_where_rows_are_full_to_the_last_slot",
        ),
        ("_MORE = 64", "_MORE = 8", f"{_TESTS}::test_tokens_are_level_where_nearly_all_rows_are_full"),
        (
            "for sign, others in ((-1.0, _OTHERS), (-1.0, _MORE), (1.0, _OTHERS), (1.0, _MORE)):",
            "for sign, others in ((1.0, _OTHERS), (1.0, _MORE)):",
            f"{_TESTS}::test_even_tokens_and_few_more_packs_in_many_settings",
        ),
    ],
}
