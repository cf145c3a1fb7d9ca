"""Faults in the bridges to other trainers. By file: what is there, what it becomes, which tests see it."""

CHECK = "bridges/test_check.py::"
NAMED = f"{CHECK}test_a_fault_is_found_and_its_cause_named"

FAULTS = {
    "packlib/bridges/asking.py": [
        (
            '"earlier": earlier, "later": others & ~earlier',
            '"earlier": others, "later": others',
            f"{CHECK}test_one_fault_fails_one_question[convolution]",
        ),
        ("% len(pool)]", "% len(pool)] * 0 + flat[slots]", f"{NAMED}[state,_without_gradients]"),
        ("10 * self.noise[0], 2e-6", "10 * self.noise[0], 2e6", f"{NAMED}[state-space_state]"),
    ],
    "packlib/bridges/causes.py": [
        ('"attention" in name, "convolution" in name)', '"attention" in name, False)', f"{NAMED}[convolution]"),
        ("if self.attention:", "if not self.attention:", f"{NAMED}[a_softmax_by_hand_without_a_mask]"),
        ('yield ["cache"], {**batch, **off}', 'yield ["none"], {**batch, **off}', f"{NAMED}[cache_left_on]"),
        ("(looks <= starts or sees <= ends)", "False", f"{NAMED}[border_off_by_one]"),
    ],
    "packlib/bridges/locating.py": [
        ("if missing[index].all():", "if False:", f"{CHECK}test_locate_finds_a_sequence_of_which_most_was_replaced"),
        ("0.7 * len(", "7 * len(", f"{NAMED}[a_sequence_twice]"),
    ],
    "packlib/bridges/probing.py": [
        ("buffer.copy_(value)", "pass", f"{CHECK}test_statistics_of_batches_are_left_as_they_were"),
        ("handle.remove()", "pass", f"{CHECK}test_the_model_is_left_as_it_was_also_when_interrupted"),
    ],
    "packlib/bridges/questions.py": [
        ("if strength <= limit:", "if strength >= limit:", f"{NAMED}[padding_attended]"),
        ("mends(mask.transpose(-1, -2))", "mends(mask)", f"{NAMED}[mask_transposed]"),
    ],
    "packlib/bridges/targets.py": [
        ("-least / (1 - scores", "-least / (2 - scores", f"{NAMED}[mean_over_packs]"),
        ("max(loss.shift, 1)", "max(loss.shift, 3)", f"{NAMED}[next_sequence's_first_token_as_a_target]"),
        ("np.allclose(got, shares, rtol=0.05)", "True", f"{NAMED}[mean_of_means]"),
        ("(loss.touched & ~predicted)", "(loss.touched & predicted)", f"{NAMED}[z-loss_over_padding]"),
        ("list(_SCALES)[:3]", "list(_SCALES)[:4]", f"{NAMED}[loss_times_the_rows]"),
    ],
    "packlib/bridges/packed_rows.py": [
        (
            "self.starts[self.sequences] + before",
            "self.starts[self.sequences]",
            "bridges/test_pack_dataset.py::test_what_becomes_of_overlong_sequences",
        ),
        (
            "made[ends - lengths] = IGNORED",
            "made[ends - 1] = IGNORED",
            "bridges/test_pack_dataset.py::test_what_becomes_of_overlong_sequences",
        ),
        (
            "else (sequences, sequences + 1)",
            "else (mine, mine + 1)",
            "bridges/test_pack_dataset.py::test_what_becomes_of_overlong_sequences",
        ),
    ],
    "packlib/bridges/spool.py": [
        (
            'return f"{self.kind} {self.by_token} {ends} {self._seen.hexdigest()}"',
            'return f"{self.kind} {self.by_token} {ends}"',
            "bridges/test_pack_dataset.py::test_the_same_data_gives_one_file_whatever_it_came_in_and_other_data_another",
        ),
        (
            "ends[1:] - ends[0] + self._ends[-1][-1]",
            "ends[1:] - ends[0]",
            "bridges/test_pack_dataset.py::test_rows_far_apart_are_read_as_one",
        ),
        ('side="right") - 1', 'side="left") - 1', "bridges/test_pack_dataset.py::test_rows_far_apart_are_read_as_one"),
        (
            "None if self._kept and as_given else self._folder",
            "self._folder",
            "bridges/test_pack_dataset.py::test_a_data_set_on_disk_is_read_where_it_lies",
        ),
    ],
    "packlib/bridges/stream.py": [
        (
            "place, handed_out = source.state_dict(), 0",
            "place = source.state_dict()",
            "bridges/test_pack_dataset.py::test_a_stream_goes_on_where_it_stopped",
        ),
        (
            "source.__dict__ = {**source.__dict__}",
            "pass",
            "bridges/test_pack_dataset.py::test_a_stream_goes_on_where_it_stopped",
        ),
    ],
    "packlib/bridges/forms.py": [
        (
            "(batch.segment_ids == 0) | (batch.position_ids == 0)",
            "batch.segment_ids == 0",
            "bridges/test_forms.py::test_each_sequence_gets_what_it_gets_alone",
        ),
        (
            "batch.position_ids + self.first_position",
            "batch.position_ids",
            "bridges/test_forms.py::test_each_sequence_gets_what_it_gets_alone",
        ),
        ('given["use_cache"] = False', "pass", "bridges/test_forms.py::test_each_sequence_gets_what_it_gets_alone"),
        (
            "masks = {name: mask == 0 for name, mask in masks.items()}",
            "masks = {name: mask != 0 for name, mask in masks.items()}",
            "bridges/test_forms.py::test_each_sequence_gets_what_it_gets_alone",
        ),
    ],
}
