"""What mutmut is told besides its own rules, to change the store's core one small thing at a time.

To be imported where its settings are: it reads them as soon as it is loaded.
"""

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import libcst as cst
import mutmut.__main__ as mutmut_command
from mutmut.mutation import file_mutation, mutators
from mutmut.mutation.data import SourceFileMutationData
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.stats import status_by_exit_code
from mutmut.workers.isolation import ForkRunner, MutantResult

# Calls that end in an error. Whether they are made is looked at, and not what they say.
_REFUSALS = frozenset({"_refuse", "refuse", "refuse_token"})
# They cannot be chosen among when they are called: the first is what chooses, the second never runs.
_UNTOUCHED = frozenset({"__getattribute__", "__setattr__"})
# Modules that are tested with others.
_TESTED_WITH = {
    "marking": ("collection",),
    **dict.fromkeys(
        ("garbage", "collection"),
        (
            "collection",
            "marking",
            "space_goals",
            "collection_policies",
            "retention",
            "retirement",
            "signatures",
        ),
    ),
    **dict.fromkeys(("deletion", "orphans"), ("collection", "marking", "signatures")),
    "inspection": ("verification",),
    "verification": ("verified_records", "verification_rounds", "signatures"),
    "roots": ("retention",),
    "registration": ("registration_steps", "writing"),
    "index_rows": ("registration_steps", "tensors"),
    "safetensors_header": ("tensors",),
}
# Making a store for a test, and taking it down, is not in what it took.
_SECONDS_AROUND_A_TEST = 0.05
# Of the tests of one mutant, in seconds; it may take thrice as long.
_LONGEST_ESTIMATE = 10.0
_arrange = file_mutation.function_trampoline_arrangement


def extend_mutmut(seconds: float) -> None:
    """Tell mutmut what is said here, and to spend so many seconds of tests on a mutant."""
    own = {mutators.operator_string: _strings, mutators.operator_arg_removal: _arguments}
    known = [(kind, own.get(each, each)) for kind, each in mutators.mutation_operators]
    left_out = [(cst.Expr, _without_call), (cst.Raise, _without_error)]
    file_mutation.mutation_operators = [*known, *left_out]
    file_mutation.MutationVisitor = _Visitor
    file_mutation.function_trampoline_arrangement = _arranged
    mutmut_command.get_mutant_runner = lambda _workers=1: _Runner(1, _Tests(seconds))


def try_mutants(names: Iterable[str]) -> None:
    """Make mutants of what changed, and try these, or all that were not tried yet."""
    mutmut_command._run(tuple(names), 1)


def verdicts(module: str) -> dict[str, str]:
    """Return what became of the mutants of a module so far, by their names."""
    data = SourceFileMutationData(path=Path(f"dis_store/{module}.py"))
    data.load()
    return {name: status_by_exit_code[code] for name, code in data.exit_code_by_key.items()}


class _Visitor(file_mutation.MutationVisitor):  # type: ignore[misc] # mutmut is elsewhere
    """Goes into functions with decorators, too, and not into what is said to people."""

    def on_visit(self, node: cst.CSTNode) -> bool:
        inside: bool = super().on_visit(node)
        return inside and not (isinstance(node, cst.Raise) or _is_refusal(node))

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef):
            return node.name.value in _UNTOUCHED
        return bool(super()._skip_node_and_children(node))


def _is_refusal(node: cst.CSTNode) -> bool:
    call = node.value if isinstance(node, cst.Expr) else None
    name = call.func if isinstance(call, cst.Call) else None
    return bool(isinstance(name, cst.Name) and name.value in _REFUSALS)


def _without_call(node: cst.Expr) -> Iterator[cst.Pass]:
    """Leave out a call whose result nobody takes: an `fsync`, a `chmod`, a look at a name."""
    if isinstance(node.value, cst.Call):
        yield cst.Pass()


def _without_error(_: cst.Raise) -> Iterator[cst.Pass]:
    yield cst.Pass()


def _is_text(node: cst.CSTNode) -> bool:
    """Tell whether a literal is text for people: one that is put together, or has three words or more."""
    if isinstance(node, cst.SimpleString):
        return str(node.value).count(" ") > 1
    return bool(isinstance(node, cst.FormattedString | cst.ConcatenatedString))


def _strings(node: cst.BaseString) -> Iterable[cst.BaseString]:
    return () if _is_text(node) else mutators.operator_string(node)


def _arguments(node: cst.Call) -> Iterator[cst.Call]:
    texts = [argument.value for argument in node.args if _is_text(argument.value)]
    for mutant in mutators.operator_arg_removal(node):
        if all(any(each.value is text for each in mutant.args) for text in texts):
            yield mutant


def _arranged(function: cst.FunctionDef, mutants: Any, class_name: str | None) -> tuple[Any, ...]:
    """Arrange the mutants of a function below its decorators, which stay on what chooses among them."""
    declared, (chooser, *variants), assigned, names = _arrange(function, mutants, class_name)
    kept = [each for each in function.decorators if _is_of_classes(each.decorator)]
    bare = [each.with_changes(decorators=kept) for each in variants]
    return declared, [chooser, *bare], assigned, names


def _is_of_classes(decorator: cst.BaseExpression) -> bool:
    return isinstance(decorator, cst.Name) and decorator.value in {"classmethod", "staticmethod"}


class _Runner(ForkRunner):  # type: ignore[misc] # mutmut is elsewhere
    """Ends what a mutant has started together with it."""

    def run_clean_tests(self, tests: Iterable[str]) -> int:
        # They passed when it was written down which functions they come by.
        return os.EX_OK

    def submit(self, mutant: str, tests: list[str], cpu_seconds: int, estimated: float) -> None:
        # Not all tests that come by are run, so that one that hangs is known sooner.
        super().submit(mutant, tests, cpu_seconds, min(estimated, _LONGEST_ESTIMATE))

    def wait_for_result(self, timeout: float | None = None) -> MutantResult:
        before = set(self._running)
        result = super().wait_for_result(timeout)
        for process in before - set(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
        return result


class _Tests(PytestRunner):  # type: ignore[misc] # mutmut is elsewhere
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def run_stats(self, *, tests: Iterable[str]) -> int:
        # What this process calls is written down, and nothing in the programs that it starts.
        del os.environ["MUTANT_UNDER_TEST"]
        return int(super().run_stats(tests=tests))

    def run_tests(self, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        if mutant_name is not None:
            os.setpgid(0, 0)
            # An earlier one may have deleted it.
            Path(tempfile.gettempdir()).mkdir(exist_ok=True)
            tests = _nearest_first(mutant_name, tests, self._seconds)
        return int(super().run_tests(mutant_name=mutant_name, tests=tests))

    def execute_pytest(self, params: list[str], **options: Any) -> int:
        plugins = [*options.pop("plugins", ()), _Elsewhere()]
        return int(super().execute_pytest(params, plugins=plugins, **options))


class _Elsewhere:
    """Runs the tests in an empty directory: what deletes could, as a mutant, delete from where the process is."""

    def pytest_collection_finish(self) -> None:
        os.chdir(tempfile.mkdtemp())


def _nearest_first(mutant: str, tests: Iterable[str], seconds: float) -> list[str]:
    """Return the tests of the module itself, then the fastest of those that come by, for so many seconds."""
    module = mutant.rpartition(".")[0].rpartition(".")[2]
    own = [f"/test_{name}.py::" for name in (module, *_TESTED_WITH.get(module, ()))]
    took = {test: state().duration_by_test[test] + _SECONDS_AROUND_A_TEST for test in tests}
    near = {test for test in took if any(file in test for file in own)}
    ordered = sorted(took, key=lambda test: (test not in near, took[test]))
    ends = accumulate(took[test] for test in ordered)
    chosen = zip(ordered, ends, strict=True)
    return [test for test, end in chosen if test in near or end <= seconds] or ordered[:1]
