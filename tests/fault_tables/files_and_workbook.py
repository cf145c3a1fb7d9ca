"""Faults in files, text from outside and the workbook. By file: what is there, what it becomes, which tests see it."""

FAULTS = {
    "packlib/installed.py": [
        (
            'get(package, "lab")',
            'get(package, "train")',
            "project/test_wheel.py::test_what_an_extra_brings_is_named_by_every_command",
        )
    ],
    "packlib/workbook/running.py": [
        ("return 128 + signal.SIGPIPE", "raise", "workbook/test_cli.py::test_nobody_who_reads_is_no_failure")
    ],
    "packlib/advisor/layers.py": [
        (
            "empty = deepest - n / plan.num_packs",
            "empty = deepest + n / plan.num_packs",
            "advisor/test_advisor.py::test_the_places_of_static_shapes_are_counted",
        )
    ],
    "packlib/advisor/risks.py": [
        (
            "- histogram.truncated  # which",
            "# which",
            "advisor/test_advisor.py::test_lengths_that_pile_up_at_the_longest_look_cut_whatever_the_rows",
        )
    ],
    "packlib/advisor/trials.py": [
        (
            "min(trial.packs, made.num_packs)",
            "trial.packs",
            "advisor/test_trials.py::test_the_plan_at_the_recommended_depth_is_known_of_all_deeper_ones",
        )
    ],
    "packlib/advisor/applying.py": [
        (
            " * accelerator.num_processes",
            "",
            "advisor/test_applying.py::test_accelerate_makes_them_on_as_many_ranks_as_the_recipe_has",
        )
    ],
    "packlib/lengths/own_files.py": [
        (
            "for group in range(file.num_row_groups):",
            "for group in range(1, file.num_row_groups):",
            "bridges/test_pack_command.py::test_the_command_packs_one_parquet_file_into_another",
        ),
        (
            "_TOKENS * about.num_rows // most",
            "_ROWS",
            "lengths/test_sources_files.py::test_a_parquet_file_is_read_in_bounded_memory",
        ),
        (
            "0 < blank <= number or not re.match(_LENGTH, text)",
            "not re.match(_LENGTH, text)",
            "lengths/test_sources_files.py::test_broken_columns_name_the_line",
        ),
        (
            '"(empty)" * any(map(str.strip, row))',
            '""',
            "lengths/test_sources_files.py::test_broken_columns_name_the_line",
        ),
    ],
    "packlib/workbook/exercises.py": [
        (
            "self._misses[name] > 1",
            "self._misses[name] > 0",
            "workbook/test_workbook.py::test_a_hint_comes_after_the_second_miss",
        ),
        ("rel_tol=1e-9", "rel_tol=1e-2", "workbook/test_workbook.py::test_same_compares_like_a_teacher"),
        (
            "answer(*copy.deepcopy(case))",
            "answer(*case)",
            "workbook/test_workbook.py::test_an_answer_cannot_change_the_case_that_follows",
        ),
    ],
    "packlib/workbook/parameters.py": [
        (
            "kind.parse(value) if isinstance(value, str) else value",
            "value",
            "workbook/test_workbook.py::test_text_is_read_as_from_a_shell",
        ),
        (
            '{"true": True, "false": False}',
            '{"true": True, "false": True}',
            "workbook/test_workbook.py::test_values_are_read_from_the_shell",
        ),
    ],
    "packlib/workbook/tables.py": [
        (
            '[">" if right else "<" ',
            '["<" if right else ">" ',
            "advisor/test_advisor.py::test_a_table_reads_as_text_and_as_html",
        ),
        (
            "in_html(text)}</{tag}>",
            "text}</{tag}>",
            "files/test_markup.py::test_a_name_makes_no_element_where_an_object_shows_itself",
        ),
    ],
    "packlib/strict_json.py": [
        (
            "        if name in found:\n",
            "        if False:\n",
            "packing/test_plans.py::test_what_a_file_holds_is_taken_exactly_or_refused",
        )
    ],
    "packlib/arrays.py": [
        (
            "if size != end + _CHECKSUM:",
            "if size < end + _CHECKSUM:",
            "files/test_arrays.py::test_the_line_is_part_of_what_the_checksum_sees",
        ),
        (
            "if verify and checksum(file, end) != file.read():",
            "if False:",
            "files/test_arrays.py::test_the_line_is_part_of_what_the_checksum_sees",
        ),
        ("not 0 <= shape[0] <= size:", "False:", "files/test_arrays.py::test_an_old_file_is_read_with_the_same_care"),
        (
            "or found[1] in places:",
            "or False:",
            "files/test_arrays.py::test_a_line_that_tells_of_no_integers_is_refused",
        ),
    ],
    "packlib/places.py": [
        ("O_EXCL, 0o666", "O_EXCL, 0o600", "packing/test_packs.py::test_a_file_gets_the_rights_that_the_umask_leaves"),
        (
            "        if _lock(handle):\n            part",
            "        if _lock(handle) or True:\n            part",
            "project/test_places.py::test_what_a_killed_writer_left_is_removed_by_the_next",
        ),
        (
            "if _lock(handle) and os.fstat(handle).st_nlink:",
            "if _lock(handle):",
            "project/test_places.py::test_what_was_removed_before_it_was_locked_is_made_again",
        ),
        (
            " and os.path.samestat(os.fstat(handle), os.stat(folder))",
            "",
            "project/test_places.py::test_what_was_removed_before_it_was_locked_is_made_again",
        ),
        ("        if new:\n", "        if True:\n", "project/test_places.py::test_a_folder_has_one_run_at_a_time"),
        (
            "return Path(os.path.realpath(path))",
            "return Path(path).absolute()",
            "project/test_places.py::test_a_link_to_a_file_stays_a_link",
        ),
    ],
    "packlib/markup.py": [
        ('r"[$\\\\]"', 'r"[$]"', "files/test_markup.py::test_an_element_says_what_the_text_says_and_holds_no_formula"),
        (
            "html.escape(text)",
            "html.escape(text, quote=False)",
            "files/test_markup.py::test_an_attribute_holds_the_text_in_either_quotes",
        ),
        (
            " if letter.isprintable() or letter.isspace()",
            "",
            "files/test_markup.py::test_a_name_is_one_short_line_that_can_be_printed",
        ),
    ],
    "packlib/workbook/guesses.py": [
        (
            "<= _NEAR * abs(truth)",
            "<= _NEAR * truth",
            "workbook/test_guesses.py::test_only_the_exact_answer_is_exactly_right",
        ),
        (
            "and 0 < abs(number) < 1:",
            "and 0 < number < 1:",
            "workbook/test_guesses.py::test_a_guess_that_cannot_be_judged_gets_one_sentence",
        ),
        (
            "999.5 <= abs(value)",
            "1000 <= abs(value)",
            "workbook/test_guesses.py::test_an_answer_is_written_as_people_write_it",
        ),
        (
            "truth != round(truth) and said",
            "said",
            "workbook/test_guesses.py::test_only_the_exact_answer_is_exactly_right",
        ),
        (
            "'above' if off > 0",
            "'above' if off < 0",
            "workbook/test_guesses.py::test_only_the_exact_answer_is_exactly_right",
        ),
    ],
    "packlib/workbook/questions.py": [
        (
            'judged.state == "none" and not',
            'judged.state == "near" and not',
            "workbook/test_questions.py::test_without_a_guess_the_answer_is_folded",
        ),
        (
            'if judged.state == "wrong":',
            "if False:",
            "workbook/test_questions.py::test_each_wrong_choice_gets_its_reply",
        ),
    ],
    "packlib/workbook/copies.py": [
        (
            "if not copy.exists():",
            "if number or not copy.exists():",
            "workbook/test_copies.py::test_a_changed_chapter_is_offered_beside_the_learners",
        ),
        (
            "cell.update(outputs=[], execution_count=None)",
            "cell.update(execution_count=None)",
            "workbook/test_copies.py::test_copies_hold_no_outputs",
        ),
    ],
    "packlib/workbook/sweep.py": [
        (
            '\\0".encode() + source.read_bytes())',
            '\\0".encode())',
            "workbook/test_sweep.py::test_a_changed_library_is_another_sweep",
        ),
        (
            '                    state.update(hashlib.file_digest(file, "sha256").digest())\n',
            "                    pass\n",
            "workbook/test_sweep.py::test_other_lengths_under_the_same_name_are_another_sweep",
        ),
        (
            ' if known["key"] == cell.key else None',
            "",
            "workbook/test_sweep.py::test_a_sweep_goes_on_where_it_stopped",
        ),
    ],
    "packlib/workbook/execution.py": [
        (
            ", **(environment or {})}",
            "}",
            "workbook/test_workbook.py::test_a_notebook_runs_in_its_folder_with_what_it_is_given",
        ),
        (
            "            cell.metadata.pop(name, None)",
            "            cell.metadata.clear()",
            "workbook/test_workbook.py::test_settle_drops_what_changes_and_what_dies",
        ),
    ],
    "packlib/workbook/slides.py": [
        (
            'elif not wishes.get("skip") and',
            "elif",
            "workbook/test_slides.py::test_a_cell_may_leave_figures_out_or_name_one",
        ),
        (
            'if claim != means["title"]:',
            "if True:",
            "workbook/test_slides.py::test_the_title_of_a_figure_is_its_claim_and_stands_once",
        ),
        (
            "if section and len(slides) > 1:",
            "if section:",
            "workbook/test_slides.py::test_a_section_with_several_claims_is_opened",
        ),
    ],
    "packlib/workbook/results.py": [
        (
            'if Path(name).name != name or name in ("", ".."):',
            "if not name:",
            "project/test_places.py::test_what_a_notebook_keeps_is_in_its_folder",
        )
    ],
}
