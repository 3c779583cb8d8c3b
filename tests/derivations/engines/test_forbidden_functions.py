"""The engine's arithmetic uses only what IEEE-754 defines to the last bit: read from its source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dis_derivations.engines.reference as package

FILES = sorted(Path(next(iter(package.__path__))).glob("*.py"))

ALLOWED_OF_NUMPY = {
    # Single correctly rounded operations, exact ones, selection.
    *("add", "subtract", "multiply", "divide", "abs", "sqrt", "rint", "frexp", "ldexp"),
    *("maximum", "minimum", "greater_equal", "where", "isfinite", "array_equal"),
    *("partition", "argsort", "searchsorted", "flatnonzero", "count_nonzero"),
    # Making and arranging arrays.
    *("empty", "empty_like", "zeros", "ones", "full", "array", "arange", "append", "concatenate"),
    *("repeat", "cumsum", "ascontiguousarray", "right_shift", "ndarray", "dtype"),
    *("float64", "float32", "int64", "int32", "intp", "uint8", "uint32", "uint64", "bool_", "inf"),
    *("errstate", "show_config", "__version__"),
    # Sums of integers that fit: only in the modules below.
    *("matmul", "dot", "add.reduce", "maximum.reduce", "multiply.outer"),
}
SUMMING = {
    "matmul": {"exact_matmul.py", "attention.py", "row_attention.py"},
    "dot": {"blocked_product.py", "normalization.py", "row_attention.py"},
    "add.reduce": {"normalization.py", "attention.py"},
    "cumsum": {"drawing.py"},  # of int64
    "@": {"known_answers.py"},  # of int64
}
FORBIDDEN_METHODS = {"sum", "mean", "dot", "prod", "cumprod", "std", "var", "trace", "ptp", "round"}
ALLOWED_OF_MATH = {"ceil", "factorial", "frexp", "ldexp", "prod"}


def numpy_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield `name` of each `np.name`, and `ufunc.method` of each `np.ufunc.method`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            value = node.value
            if isinstance(value, ast.Name) and value.id == "np":
                yield node.attr, node.lineno
            elif (
                isinstance(value, ast.Attribute)
                and isinstance(value.value, ast.Name)
                and value.value.id == "np"
            ):
                yield f"{value.attr}.{node.attr}", node.lineno


def faults(source: str, file: str) -> list[str]:
    tree = ast.parse(source)
    found = [
        f"{file}:{line}: np.{name}"
        for name, line in numpy_names(tree)
        if name not in ALLOWED_OF_NUMPY or file not in SUMMING.get(name, {file})
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            found += [f"{file}:{node.lineno}: {fault}" for fault in operator_faults(node, file)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_numpy = isinstance(node.func.value, ast.Name) and node.func.value.id == "np"
            if node.func.attr in FORBIDDEN_METHODS and not of_numpy:
                found.append(f"{file}:{node.lineno}: .{node.func.attr}()")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found += [f"{file}:{node.lineno}: {fault}" for fault in import_faults(node)]
    return found


def operator_faults(node: ast.BinOp, file: str) -> Iterator[str]:
    if isinstance(node.op, ast.MatMult) and file not in SUMMING["@"]:
        yield "@"
    if isinstance(node.op, ast.Pow):
        operands = (node.left, node.right)
        if any(isinstance(o, ast.Constant) and isinstance(o.value, float) for o in operands):
            yield "a power of floats"


def import_faults(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.Import):
        yield from (name for name in names if name in {"math", "cmath", "random", "scipy"})
    elif node.module in {"math", "numpy", "cmath"}:
        allowed = ALLOWED_OF_MATH if node.module == "math" else set()
        yield from (name for name in names if name not in allowed)


def test_the_package_is_found() -> None:
    assert {"attention.py", "exact_matmul.py", "decoder.py"} <= {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_module_uses_only_operations_that_are_the_same_everywhere(path: Path) -> None:
    assert faults(path.read_text("utf-8"), path.name) == []


@pytest.mark.parametrize(
    "line",
    [
        "y = np.exp(x)",
        "y = np.sum(x)",
        "y = x.sum()",
        "y = np.einsum('ij->i', x)",
        "y = np.dot(a, b)",
        "y = a @ b",
        "y = np.matmul(a, b)",
        "y = np.add.reduce(x)",
        "y = np.float_power(x, 2)",
        "y = 2.0 ** n",
        "from math import sin",
        "import math",
        "from numpy import tanh",
        "y = np.linalg.norm(x)",
    ],
)
def test_a_forbidden_operation_is_seen(line: str) -> None:
    assert faults(line, "decoder.py") != []
