"""Faults in the audit of packs that others made. By file: what is there, what it becomes, which tests see it."""

_TESTS = "bridges/test_audit.py::"
_FORMATS = f"{_TESTS}test_every_format_counts_as_a_plain_loop_does"

FAULTS = {
    "packlib/bridges/audit_files.py": [
        ("ends[:-1] - 1), sizes - 1", "ends[:-1]), sizes - 1", _FORMATS),
        ("return after - values - 1, sizes", "return after - values, sizes", _FORMATS),
        (
            "begins[(np.cumsum(sizes) - sizes)[sizes > 0]] = True",
            "pass",
            f"{_TESTS}test_the_end_of_what_was_cut_is_seen",
        ),
    ],
    "packlib/bridges/auditing.py": [
        ("(seen.tokens - 1) // top", "seen.tokens // top", f"{_TESTS}test_megatron_cuts_when_it_loads"),
        (
            "widths > self.max_length",
            "widths >= self.max_length",
            f"{_TESTS}test_packs_that_are_too_full_and_lengths_that_end_in_a_heap",
        ),
        ("pieces[0], long = 0,", "long =", f"{_TESTS}test_pieces_that_leave_no_remainder"),
        ("source.num_sequences - whole", "whole", f"{_TESTS}test_what_lengths_prove_beside_the_source"),
        ("loaded * (ranks > 1)", "loaded", f"{_TESTS}test_updates_are_those_of_accelerate"),
    ],
    "packlib/bridges/audit_findings.py": [
        ("-packs % loaded if", "packs % loaded if", f"{_TESTS}test_updates_are_those_of_accelerate"),
        ("self.epochs <= 1.05 * near", "self.epochs >= 1.05 * near", f"{_TESTS}test_marin_7130_epochs_of_packs"),
    ],
    "packlib/bridges/audit_waits.py": [
        (
            "work.of(dealt, lengths), ranks, packs_per_rank",
            "dealt.lengths_used, ranks, packs_per_rank",
            "bridges/test_audit_waits.py::test_two_ranks_by_hand",
        ),
        ('MOST_HELD, "right"', 'MOST_HELD + 4, "right"', "bridges/test_audit_waits.py::test_memory_is_bounded"),
    ],
}
