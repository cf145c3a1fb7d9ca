"""Count what torch.compile does: its graphs, its recompiles, and why each of them happened."""

import re
from dataclasses import dataclass, replace
from typing import Any

from torch._dynamo import convert_frame, utils

from packlib.markup import in_html


@dataclass(frozen=True)
class Compile:
    """One try of torch.compile to make a graph of a function.

    Attributes:
        graph: torch's name for it: "0/3" is the fourth graph of the first function.
        function: the function's name; what follows a break in a graph is a function of its own.
        operations: in the graph; 0 if none came of it.
        seconds: spent on it, the backward graph included.
        failed_guards: what each earlier graph had been made for and did not find, in torch's words; none for
            the first graph of a function.
        eager: why the function runs without a graph, in torch's words; "" if it has one.
    """

    graph: str
    function: str
    operations: int
    seconds: float
    failed_guards: tuple[str, ...]
    eager: str


class CompileCounter:
    """Counts the graphs that torch.compile makes within a block, whatever the backend.

    Graphs of an earlier time are not made again: begin with `torch.compiler.reset()` to count from nothing.
    `backend="eager"` traces graphs and runs them as they are: the same counts, without the time of a real compiler.

    >>> import torch
    >>> from packlib.training.scaling import CompileCounter
    >>> torch.compiler.reset()
    >>> double = torch.compile(lambda x: 2 * x, backend="eager", dynamic=False)
    >>> with CompileCounter() as compiles:
    ...     for length in (10, 20, 10):
    ...         _ = double(torch.zeros(length))
    >>> compiles.graphs, compiles.recompiles
    (2, 1)

    Attributes:
        compiles: a list of `Compile`, in their order; can be read within the block too.
    """

    def __init__(self) -> None:
        self._reasons: list[tuple[str, tuple]] = []
        self._records: list | None = []

    def __enter__(self) -> "CompileCounter":
        # torch keeps records of its last 64 compiles, with the first reason of each: keep all, and all reasons
        self._limit = utils._compilation_metrics.maxlen
        utils.set_compilation_metrics_limit(1 << 20)
        self._before, self._records = len(utils.get_compilation_metrics()), None
        # No public hook tells every reason: the records hold the first, and torch.compile takes no `guard_fail_fn`.
        self._reasons, self._tell = [], convert_frame.get_and_maybe_log_recompilation_reasons
        convert_frame.get_and_maybe_log_recompilation_reasons = self._listen
        return self

    def __exit__(self, *error: Any) -> None:
        self._records = utils.get_compilation_metrics()[self._before :]
        utils.set_compilation_metrics_limit(self._limit)
        convert_frame.get_and_maybe_log_recompilation_reasons = self._tell

    def _listen(self, entries: Any, frame: Any, *args: Any, **options: Any) -> Any:
        """Stands in for the function that torch asks why guards failed."""
        reasons = self._tell(entries, frame, *args, **options)
        self._reasons.append((frame.f_code.co_name, tuple(reasons)))
        return reasons

    @property
    def compiles(self) -> list[Compile]:
        records = utils.get_compilation_metrics()[self._before :] if self._records is None else self._records
        found, reasons = list[Compile](), iter(self._reasons)
        for record in records:
            name, seconds = str(record.compile_id), (record.duration_us or 0) / 1e6
            if record.co_name is None and record.fail_type is None:  # what came later: the backward graph
                at = max((i for i, compile in enumerate(found) if compile.graph == name), default=None)
                if at is not None:
                    found[at] = replace(found[at], seconds=found[at].seconds + seconds)
                continue
            function, failed = record.co_name, ()
            if record.recompile_reason is not None:
                function, failed = next(reasons)
            eager = record.fail_reason or ("" if record.graph_op_count else "no operation to compile")
            reason = eager.split("\n")[0]
            found.append(Compile(name, function or "?", record.graph_op_count or 0, seconds, failed, reason))
        return found

    @property
    def graphs(self) -> int:
        """How many graphs were made."""
        return sum(not compile.eager for compile in self.compiles)

    @property
    def recompiles(self) -> int:
        """How many of them were made because the guards of all earlier ones failed."""
        return sum(bool(compile.failed_guards) and not compile.eager for compile in self.compiles)

    @property
    def seconds(self) -> float:
        """Spent on compiling, forward and backward."""
        return sum(compile.seconds for compile in self.compiles)

    @property
    def fell_back(self) -> list[Compile]:
        """The functions that reached the recompile limit: what has no graph yet runs eagerly from there on."""
        said = re.compile("(recompile|cache)[_ ]limit")  # torch 2.8 and 2.13 word it differently
        return [compile for compile in self.compiles if said.search(compile.eager)]

    def _summary(self) -> list[str]:
        counts = ((self.graphs, "graph"), (self.recompiles, "recompile"))
        words = ", ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts)
        limits = ((compile.function, compile.graph.split("/")[1]) for compile in self.fell_back)
        beyond = "what they do not fit runs eagerly from here on"
        fell = [f"{name} reached the recompile limit after {limit} graphs: {beyond}" for name, limit in limits]
        return [f"{words}, {self.seconds:.1f} s of compiling", *fell]

    def _table(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("graph", "function", "operations", "seconds", "failed guards", "reason")]
        for one in self.compiles:
            reason = one.eager or "first graph of this function"
            if one.failed_guards:
                reason = "; ".join(re.sub(r"^\d+/\d+: ", "", guard) for guard in one.failed_guards)
                reason = f"eager: {reason}" if one.eager else reason
            failed = len(one.failed_guards)
            rows.append((one.graph, one.function, str(one.operations), f"{one.seconds:.2f}", str(failed), reason))
        return rows

    def __repr__(self) -> str:
        rows = self._table()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join(["CompileCounter: " + "; ".join(self._summary()), *(lines if rows[1:] else [])])

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        cells = "".join(f"<th>{name}</th>" for name in head)
        body = "".join("<tr>" + "".join(f"<td>{in_html(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        summary = "".join(f"<div>{in_html(line)}.</div>" for line in self._summary())
        return f"<div>{summary}<table><tr>{cells}</tr>{body}</table></div>"
