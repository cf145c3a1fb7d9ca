"""Faults in the bridges to other trainers. By file: what is there, what it becomes, which tests see it."""

FAULTS = {
    "packlib/bridges/packed_rows.py": [
        (
            "before = ranges(np.zeros_like(count), count) * max_length",
            "before = ranges(np.zeros_like(count), count) * (max_length - 1)",
            "bridges/test_pack_dataset.py::test_what_becomes_of_overlong_sequences",
        ),
        (
            "np.where(positions == 0, np.int32(IGNORED), ids)",
            "ids",
            "bridges/test_pack_dataset.py::test_what_becomes_of_overlong_sequences",
        ),
        (
            "places = tokens if column.by_token else pieces.sequences[mine]",
            "places = tokens if column.by_token else mine",
            "bridges/test_pack_dataset.py::test_what_becomes_of_overlong_sequences",
        ),
        (
            "for group in range(file.num_row_groups):",
            "for group in range(1, file.num_row_groups):",
            "bridges/test_pack_dataset.py::test_the_command_packs_one_parquet_file_into_another",
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
