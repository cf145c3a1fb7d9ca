"""Faults in models and training. By file: what is there, what it becomes, which tests see it."""

FAULTS = {
    "packlib/model/packed.py": [
        (
            "< count, first, -1)",
            "< count, first, 0)",
            "model/test_packed.py::test_an_empty_mlm_slot_counts_nothing_where_the_first_token_is_predicted",
        ),
        (
            "(segment_ids[:, 1:] == segment_ids[:, :-1]) & (segment_ids[:, 1:] > 0)",
            "segment_ids[:, 1:] > 0",
            "model/test_packed.py::test_next_tokens_stop_at_the_end_of_a_sequence",
        ),
        (
            "reset_positions(segment_ids) if position_ids is None",
            "None if position_ids is None",
            "model/test_packed.py::test_positions_are_reset_where_none_are_given",
        ),
    ],
    "packlib/model/families.py": [
        (
            'row["model_type"] in ("", family)',
            'row["model_type"] == family',
            "model/test_families.py::test_a_setting_that_packs_would_change_is_refused_when_the_model_is_built",
        )
    ],
    "packlib/model/losses.py": [
        (
            'positions // slots if reduction == "pack"',
            'positions % slots if reduction == "pack"',
            "model/test_losses.py::test_every_mean_is_what_it_says",
        ),
        (
            "positions, right=True) - 1",
            "positions, right=False) - 1",
            "model/test_losses.py::test_every_mean_is_what_it_says",
        ),
        (
            "self.total / self.count.clamp(min=1)",
            "self.total / self.count",
            "model/test_losses.py::test_no_label_at_all_is_a_loss_of_zero_with_a_gradient",
        ),
    ],
    "packlib/training/loop.py": [
        (
            '            optimizer.step()\n            schedule.step(counts["sequences"])\n',
            '            schedule.step(counts["sequences"])\n            optimizer.step()\n',
            "training/test_loop.py::test_the_rate_of_the_record_is_the_rate_that_was_applied",
        ),
        (
            "sums[name].total / max(counts[name], 1)",
            "sums[name].mean / len(batches)",
            "training/test_loop.py::test_uneven_accumulation_is_one_big_batch",
        ),
        (
            "run.ranks.sum(here).tolist()",
            "here.tolist()",
            "training/test_fit_on_ranks.py::test_two_ranks_train_as_one",
        ),
        ("(loss * world).backward()", "loss.backward()", "training/test_fit_on_ranks.py::test_two_ranks_train_as_one"),
    ],
    "packlib/training/schedules.py": [
        (
            "return sequences / warmup",
            "return (sequences + 1) / warmup",
            "training/test_schedules.py::test_equal_updates_give_transformers_schedules",
        )
    ],
    "packlib/training/updates.py": [
        (
            "self._ahead += have - self.target",
            "self._ahead = have - self.target",
            "training/test_updates.py::test_a_target_is_met_within_the_deepest_pack_and_no_pack_is_lost",
        ),
        (
            "(middles < 2 * wanted)",
            "(middles < 3 * wanted)",
            "training/test_updates.py::test_even_updates_are_more_even",
        ),
    ],
    "packlib/training/checkpoint.py": [
        (
            'torch.set_rng_state(own["rng"])',
            "pass",
            "training/test_loop.py::test_an_interrupted_run_ends_bit_for_bit_as_if_it_had_not_been[False-lamb]",
        ),
        (
            "path.replace(self.folder / CHECKPOINT)",
            "pass",
            "training/test_checkpoint.py::test_a_damaged_checkpoint_gives_way_to_the_one_before_it",
        ),
    ],
    "packlib/training/recipe.py": [
        (
            "math.log(0.5) / math.log(beta)",
            "math.log(0.5) / math.log(beta) / 2",
            "training/test_recipe.py::test_a_gradient_weighs_half_after_its_half_life",
        )
    ],
    "packlib/model/own_masks.py": [
        (
            "(1 - row) / (1 - here)",
            "(1 - here) / (1 - here)",
            "model/test_families.py::test_packed_equals_each_sequence_alone",
        ),
        (
            'if family not in ("bloom", "falcon")',
            "if True",
            "model/test_families.py::test_alibi_is_rounded_as_it_is_for_a_sequence_alone",
        ),
        ("near != ids[:, :, None]", "near < 0", "model/test_families.py::test_packed_equals_each_sequence_alone"),
        (
            "pairs = allowed_pairs(packs_now(module).segment_ids) & (own if own.dim() == 3 else own[:, None])",
            "pairs = allowed_pairs(packs_now(module).segment_ids)",
            "model/test_families.py::test_packed_equals_each_sequence_alone",
        ),
    ],
    "packlib/model/attention.py": [
        (
            "scaling * math.sqrt(width)",
            "1",
            "model/test_attention.py::test_varlen_scales_the_scores_as_the_model_says",
        ),
        (
            "    if not packs.masks:\n",
            "    if False:\n",
            "model/test_families.py::test_a_model_that_makes_its_mask_its_own_way_never_runs",
        ),
        (
            '("softcap", "s_aux", "position_bias")',
            '("s_aux", "position_bias")',
            "model/test_families.py::test_what_a_backend_cannot_do_exactly_it_refuses",
        ),
        (
            "places[:, :, None], places[:, None, :])",
            "places[:, None, :], places[:, :, None])",
            "model/test_families.py::test_windows_are_kept_by_every_backend",
        ),
        (
            '{"window_size": (-1, 0)} if',
            '{"window_size": (-1, -1)} if',
            "model/test_attention.py::test_varlen_backend_with_a_kernel_by_hand",
        ),
    ],
    "packlib/training/objective.py": [
        (
            "            dist.all_reduce(both)\n",
            "            pass\n",
            "training/test_fit_on_ranks.py::test_two_ranks_train_as_one",
        ),
        (
            "        model.train(was_training)\n",
            "        pass\n",
            "training/test_loop.py::test_evaluation_is_the_mean_over_all_batches",
        ),
    ],
    "packlib/bridges/trainer.py": [
        (
            "range(self.args.process_index, len(data), self.args.world_size)",
            "range(len(data))",
            "bridges/test_trainer.py::test_two_ranks_are_one[bert]",
        ),
        (
            'self.accelerator.reduce(total.to(device), "sum").tolist()',
            "total.tolist()",
            "bridges/test_trainer.py::test_two_ranks_are_one[bert]",
        ),
        (
            "args.seed if args.data_seed is None else args.data_seed",
            "args.seed",
            "bridges/test_trainer.py::test_arguments_of_trainer_that_packs_keep",
        ),
        (
            "            if not only_loss:\n",
            "            if True:\n",
            "bridges/test_trainer.py::test_arguments_of_trainer_that_packs_keep",
        ),
        (
            "self._train_batch_size, args.dataloader_drop_last",
            "self._train_batch_size, False",
            "bridges/test_trainer.py::test_arguments_of_trainer_that_packs_keep",
        ),
        (
            "batch.segment_ids.flatten() > 0",
            "batch.segment_ids.flatten() >= 0",
            "bridges/test_trainer.py::test_a_prediction_without_labels_or_with_static_shapes_or_hidden_states",
        ),
        (
            "batch.position_ids.flatten()[at]",
            "at",
            "bridges/test_trainer.py::test_a_prediction_has_every_sequence_and_labeled_token_once",
        ),
    ],
}
