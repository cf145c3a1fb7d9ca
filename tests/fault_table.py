"""The deliberate faults of `python -m tests.faults`, by file: what is there, what it becomes, which tests see it."""

FAULTS = {
    "packlib/lengths/counting.py": [
        (
            "np.count_nonzero(part > limit)",
            "np.count_nonzero(part >= limit)",
            "test_lengths_histogram.py::test_overlong_sequences_are_cut_or_left_out_and_counted",
        ),
        (
            "part[: len(counts)] += counts",
            "part[: len(counts) - 1] += counts[:-1]",
            "test_lengths_histogram.py::test_chunks_count_as_the_whole",
        ),
        (
            "argsort(counts - shares",
            "argsort(shares - counts",
            "test_lengths_histogram.py::test_apportion_is_whole_adds_up_and_stays_within_one",
        ),
    ],
    "packlib/lengths/histogram.py": [
        (
            "counts[-1] += over",
            "counts[-1] += over > 0",
            "test_lengths_histogram.py::test_overlong_sequences_are_cut_or_left_out_and_counted "
            "test_lengths_histogram.py::test_what_was_lost_before_stays_counted",
        ),
        (
            "truncated=self.truncated + other.truncated",
            "truncated=max(self.truncated, other.truncated)",
            "test_lengths_histogram.py::test_adding_keeps_the_least_certain_kind_and_sees_overflow",
        ),
    ],
    "packlib/lengths/waste.py": [
        (
            "_at_most(ranks - 1, total",
            "_at_most(ranks, total",
            "test_lengths_waste.py::test_random_batches_cost_the_mean_over_every_order",
        ),
        (
            "rest * int(np.flatnonzero(histogram.counts)[-1])",
            "rest * int(np.flatnonzero(histogram.counts)[0])",
            "test_lengths_waste.py::test_sorted_and_maximum_are_exact",
        ),
    ],
    "packlib/packing/plan.py": [
        (
            "self.depth > limit:",
            "self.depth > limit + 1:",
            "test_packing_plan.py::test_a_pack_one_over_the_depth_limit_is_seen",
        ),
    ],
    "packlib/packing/certificate.py": [
        (
            "alone - (alone - sequences[short])",
            "alone - 1 - (alone - sequences[short])",
            "test_packing_plan.py::test_a_greedy_plan_that_is_the_best_says_so",
        ),
        (
            "bounds = [alone - (tokens",
            "bounds = [alone + 1 - (tokens",
            "test_packing_plan.py::test_what_sums_prove_is_true_and_knows_depth_and_long_sequences",
        ),
    ],
    "packlib/packing/greedy.py": [
        (
            "(space := packs.smallest(length))",
            "(space := packs.largest(top)) >= length",
            "test_packing_greedy.py::test_lpfhp_is_best_fit_decreasing",
        ),
        (
            "while n and space >= length:",
            "while n and space > length:",
            "test_packing_greedy.py::test_spfhp_by_hand",
        ),
    ],
    "packlib/packing/assign.py": [
        (
            "default_rng([seed, length])",
            "default_rng([seed])",
            "test_packing_assign.py::test_the_seed_permutes_samples_of_equal_length",
        ),
        (
            "            starts[length] += repeats\n",
            "            starts[length] += repeats - 1\n",
            "test_packing_assign.py::test_each_sample_lands_in_one_pack_of_its_plan",
        ),
    ],
    "packlib/files.py": [
        (
            "0o666 & ~umask",
            "0o666",
            "test_packing_assign.py::test_a_file_gets_the_rights_that_the_umask_leaves",
        ),
    ],
    "packlib/batches/masking.py": [
        (
            "(fate < 0.9 * 2**53)",
            "(fate < 0.95 * 2**53)",
            "test_batches_masking.py::test_proportions_and_places_are_even",
        ),
        (
            "state ^ sequences.sample_ids.astype(np.uint64)",
            "state ^ np.arange(len(sequences), dtype=np.uint64)",
            "test_batches_masking.py::test_a_sample_is_masked_the_same_in_any_company",
        ),
    ],
    "packlib/batches/cutting.py": [
        (
            "starts[at] - start >= fewest",
            "starts[at] - start > fewest",
            "test_batches_cutting.py::test_min_batch_refuses_only_what_no_cut_keeps",
        ),
        (
            "> budget or end - start > most:",
            ">= budget or end - start > most:",
            "test_batches_budget.py::test_it_is_the_plain_loop",
        ),
    ],
    "packlib/batches/curriculum.py": [
        (
            "if done >= warmup:",
            "if done >= warmup - 1:",
            "test_batches_curriculum.py::test_the_warm_up_keeps_its_promises",
        ),
        (
            "short[name][cut, length - 1] = tensors[name][cut, ends[cut]]",
            "short[name][cut, length - 1] = tensors[name][cut, -1]",
            "test_batches_curriculum.py::test_truncating_drops_the_rest_and_may_keep_the_end",
        ),
    ],
    "packlib/model/packed.py": [
        (
            "< count, first, -1)",
            "< count, first, 0)",
            "test_model_packed.py::test_an_empty_mlm_slot_counts_nothing_where_the_first_token_is_predicted",
        ),
        (
            "(segment_ids[:, 1:] == segment_ids[:, :-1]) & (segment_ids[:, 1:] > 0)",
            "segment_ids[:, 1:] > 0",
            "test_model_packed.py::test_next_tokens_stop_at_the_end_of_a_sequence",
        ),
        (
            "reset_positions(segment_ids) if position_ids is None",
            "None if position_ids is None",
            "test_model_packed.py::test_positions_are_reset_where_none_are_given",
        ),
    ],
    "packlib/model/losses.py": [
        (
            'positions // slots if mean == "pack"',
            'positions % slots if mean == "pack"',
            "test_losses.py::test_every_mean_is_what_it_says",
        ),
        (
            "positions, right=True) - 1",
            "positions, right=False) - 1",
            "test_losses.py::test_every_mean_is_what_it_says",
        ),
        (
            "self.total / self.count.clamp(min=1)",
            "self.total / self.count",
            "test_losses.py::test_no_label_at_all_is_a_loss_of_zero_with_a_gradient",
        ),
    ],
    "packlib/distributed/sorting.py": [
        (
            "wanted.clip(0, last - first)",
            "wanted.clip(0)",
            "test_distributed_sort.py::test_ties_are_taken_from_no_rank_beyond_what_it_has",
        ),
        (
            "rows_sent=len(rows) - int(counts[ranks.rank])",
            "rows_sent=len(rows)",
            "test_distributed_sort.py::test_ties_are_taken_from_no_rank_beyond_what_it_has",
        ),
        (
            "rows.T[:by][::-1]",
            "rows.T[:by]",
            "test_distributed_sort.py::test_a_local_sort_is_numpys_lexsort",
        ),
    ],
    "packlib/distributed/packing.py": [
        (
            "np.cumsum(plan.repeats) + world_size - 1",
            "np.cumsum(plan.repeats) + world_size",
            "test_distributed_packing.py::test_dealing_packs_in_turn",
        ),
    ],
    "packlib/distributed/sampler.py": [
        (
            "return bits ^ (bits >> 63 & np.iinfo(np.int64).max)",
            "return bits",
            "test_distributed_sampler.py::test_bits_order_as_floats_do",
        ),
        (
            "self.num_samples if done == len(self) else done * size",
            "done * size",
            "test_distributed_sampler.py::test_a_state_counts_what_was_used_and_fits_its_sampler_only",
        ),
    ],
    "packlib/training/loop.py": [
        (
            '            optimizer.step()\n            schedule.step(counts["sequences"])\n',
            '            schedule.step(counts["sequences"])\n            optimizer.step()\n',
            "test_training_loop.py::test_the_rate_of_the_record_is_the_rate_that_was_applied",
        ),
        (
            "sums[name].total / max(counts[name], 1)",
            "sums[name].mean / len(batches)",
            "test_training_loop.py::test_uneven_accumulation_is_one_big_batch",
        ),
    ],
    "packlib/training/schedules.py": [
        (
            "return sequences / warmup",
            "return (sequences + 1) / warmup",
            "test_training_schedules.py::test_equal_updates_give_transformers_schedules",
        ),
    ],
    "packlib/training/updates.py": [
        (
            "self._ahead += have - self.target",
            "self._ahead = have - self.target",
            "test_training_updates.py::test_a_target_is_met_within_the_deepest_pack_and_no_pack_is_lost",
        ),
        (
            "(middles < 2 * wanted)",
            "(middles < wanted)",
            "test_training_updates.py::test_a_target_is_met_within_the_deepest_pack_and_no_pack_is_lost",
        ),
    ],
    "packlib/training/checkpoint.py": [
        (
            'torch.set_rng_state(own["rng"])',
            "pass",
            "test_training_loop.py::test_an_interrupted_run_ends_bit_for_bit_as_if_it_had_not_been[False-lamb]",
        ),
    ],
    "packlib/training/recipe.py": [
        (
            "math.log(0.5) / math.log(beta)",
            "math.log(0.5) / math.log(beta) / 2",
            "test_training_recipe.py::test_a_recipe_survives_json_and_says_what_it_is",
        ),
    ],
    "packlib/workbook/exercises.py": [
        (
            "rel_tol=1e-9",
            "rel_tol=1e-2",
            "test_workbook.py::test_same_compares_like_a_teacher",
        ),
        (
            "answer(*copy.deepcopy(case))",
            "answer(*case)",
            "test_workbook.py::test_an_answer_cannot_change_the_case_that_follows",
        ),
    ],
    "packlib/workbook/parameters.py": [
        (
            "kind.parse(value) if isinstance(value, str) else value",
            "value",
            "test_workbook.py::test_text_is_read_as_from_a_shell",
        ),
        (
            '{"true": True, "false": False}',
            '{"true": True, "false": True}',
            "test_workbook.py::test_values_are_read_from_the_shell",
        ),
    ],
    "packlib/workbook/tables.py": [
        (
            "text.rjust(width) if right",
            "text.rjust(width) if not right",
            "test_advisor.py::test_a_table_reads_as_text_and_as_html",
        ),
    ],
}
