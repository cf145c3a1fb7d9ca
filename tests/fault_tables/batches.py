"""Faults in batches and in what ranks share. By file: what is there, what it becomes, which tests see it."""

FAULTS = {
    "packlib/batches/batch.py": [
        (" * (segment_ids > 0)\n", "\n", "model/test_attention.py::test_masks_equal_plain_loops")
    ],
    "packlib/batches/masking.py": [
        (
            "(fate < 0.9 * 2**53)",
            "(fate < 0.95 * 2**53)",
            "batches/test_masking.py::test_proportions_and_places_are_even",
        ),
        (
            "state ^ sequences.sample_ids.astype(np.uint64)",
            "state ^ np.arange(len(sequences), dtype=np.uint64)",
            "batches/test_masking.py::test_a_sample_is_masked_the_same_in_any_company",
        ),
    ],
    "packlib/batches/cutting.py": [
        (
            "starts[at] - start >= fewest",
            "starts[at] - start > fewest",
            "batches/test_cutting.py::test_min_batch_refuses_only_what_no_cut_keeps",
        ),
        ("if used > allowed or", "if used >= allowed or", "batches/test_budget.py::test_it_is_the_plain_loop"),
        (
            "budget // (end - start) if padded",
            "budget // length if padded",
            "batches/test_budget.py::test_it_is_the_plain_loop",
        ),
        (
            "fullest = fullest[sizes[fullest] > 1]\n",
            "pass\n",
            "batches/test_budget.py::test_a_multiple_of_batches_keeps_every_sample_and_budget",
        ),
        (
            "np.arange(len(rows)) + most)",
            "np.arange(len(rows)) + most + 1)",
            "batches/test_cutting.py::test_min_batch_refuses_only_what_no_cut_keeps",
        ),
        ("elif length > used:", "else:", "batches/test_budget.py::test_it_is_the_plain_loop"),
        ("if not (padded or in_order) and", "if not padded and", "batches/test_budget.py::test_it_prints_well"),
    ],
    "packlib/batches/curriculum.py": [
        (
            "if done >= warmup:",
            "if done >= warmup - 1:",
            "batches/test_curriculum.py::test_the_warm_up_keeps_its_promises",
        ),
        (
            "short[name][cut, length - 1] = tensors[name][cut, ends[cut]]",
            "short[name][cut, length - 1] = tensors[name][cut, -1]",
            "batches/test_curriculum.py::test_truncating_drops_the_rest_and_may_keep_the_end",
        ),
    ],
    "packlib/distributed/sorting.py": [
        (
            "rows[(rank - start) % ranks.size :: ranks.size]",
            "rows[rank :: ranks.size]",
            "distributed/test_sorting.py::test_ranks_sort_as_numpy_does_and_evenly",
        ),
        (
            "wanted.clip(0, last - first)",
            "wanted.clip(0)",
            "distributed/test_sorting.py::test_ties_are_taken_from_no_rank_beyond_what_it_has",
        ),
        (
            "rows_sent=len(rows) - int(counts[ranks.rank])",
            "rows_sent=len(rows)",
            "distributed/test_sorting.py::test_ties_are_taken_from_no_rank_beyond_what_it_has",
        ),
        ("rows.T[:by][::-1]", "rows.T[:by]", "distributed/test_sorting.py::test_a_local_sort_is_numpys_lexsort"),
    ],
    "packlib/distributed/packing.py": [
        (
            "np.cumsum(plan.repeats) + world_size - 1",
            "np.cumsum(plan.repeats) + world_size",
            "distributed/test_distributed_packing.py::test_dealing_packs_in_turn",
        ),
        (
            "np.cumsum(sizes) - sizes, 0",
            "np.cumsum(sizes) - sizes[0], 0",
            "distributed/test_distributed_packing.py::test_the_packs_of_many_ranks_are_those_of_one",
        ),
        (
            "ranks.check_same(plan=digest)",
            "pass",
            "distributed/test_distributed_packing.py::test_ranks_that_plan_otherwise_stop",
        ),
    ],
    "packlib/distributed/sampler.py": [
        (
            "return bits ^ (bits >> 63 & np.iinfo(np.int64).max)",
            "return bits",
            "distributed/test_sampler.py::test_bits_order_as_floats_do",
        ),
        (
            "self.num_samples if done == len(self) else done * size",
            "done * size",
            "distributed/test_sampler.py::test_a_state_at_the_end_counts_each_sample_once_though_ranks_repeat_some",
        ),
    ],
    "packlib/batches/loader.py": [
        (
            "default_rng([self.seed, epoch])",
            "default_rng([self.seed])",
            "batches/test_loader.py::test_every_sample_comes_once_an_epoch_in_another_order",
        ),
        (
            "bounds[-1] -= ranks - rest",
            "bounds[-1] -= ranks",
            "batches/test_loader.py::test_seven_packs_are_dealt_in_turn_and_the_last_step_has_one_for_each_rank",
        ),
        (
            "[self.rank :: self.ranks]",
            "[self.ranks - 1 - self.rank :: self.ranks]",
            "batches/test_loader.py::test_seven_packs_are_dealt_in_turn_and_the_last_step_has_one_for_each_rank",
        ),
        (
            'if whole_number("epoch", epoch, 0) != self.epoch:',
            'if whole_number("epoch", epoch, 0) >= 0:',
            "batches/test_loader.py::test_the_epoch_can_be_chosen",
        ),
        (
            "epoch, first, self.start = self.epoch, self.start, 0",
            "epoch, first = self.epoch, self.start",
            "batches/test_loader.py::test_a_pass_that_breaks_off_starts_the_epoch_again",
        ),
        (
            "if done == len(sampler):",
            "if done > len(sampler):",
            "batches/test_loader.py::test_a_loader_resumes_identically[all]",
        ),
    ],
}
