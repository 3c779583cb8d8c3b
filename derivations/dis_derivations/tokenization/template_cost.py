"""What rendering a chat template costs: a budget, and the places in a template where it is spent.

A template is a program that others wrote, and a sandbox says what it may touch, not how long it may
run. So each loop, call, filter and new value in it pays from one budget, in proportion to the sizes
of what goes in and comes out. No clock is read: the same template is refused on every machine.
"""

from typing import Any

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from dis_derivations.tokenization.template_errors import GIVE_ANOTHER, RunawayTemplateError

MAX_COST = 1_000_000
"""Units that one rendering may spend: about one a value, or one for 128 characters of text."""

_CHARACTERS_A_UNIT = 128


class Budget:
    """The units that are left."""

    def __init__(self, units: int = MAX_COST) -> None:
        self._left = units

    def spend(self, units: int) -> None:
        """Take units out of the budget.

        Raises:
            RunawayTemplateError: There are not enough left.
        """
        self._left -= units
        if self._left < 0:
            raise RunawayTemplateError(
                "the chat template does not come to an end",
                cause="it does far more work than any prompt needs",
                hint=GIVE_ANOTHER,
            )

    def charge(self, value: Any) -> Any:
        """Pay for a value by its size, counting what it holds as often as it holds it; return it."""
        waiting = [value]
        while waiting:
            item = waiting.pop()
            self.spend(_own_cost(item))
            if isinstance(item, dict):
                waiting.extend(item)
                waiting.extend(item.values())
            elif isinstance(item, list | tuple):
                waiting.extend(item)
        return value


def _own_cost(value: Any) -> int:
    if isinstance(value, str):
        return 1 + len(value) // _CHARACTERS_A_UNIT
    if isinstance(value, int):
        return 1 + value.bit_length() // 64
    return 1 + (len(value) if isinstance(value, list | tuple | dict | range) else 0)


def with_charges(template: nodes.Template) -> nodes.Template:
    """Return the template with calls of its environment's `charge` and `spend` built in."""
    charged: nodes.Template = _Charging().visit(template)
    charged.set_environment(template.environment)  # type: ignore[arg-type] # set by the parser
    return charged


class _Charging(NodeTransformer):
    """Wraps values where they are made, and where they go into something that reads all of them."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - named after the node
        text = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        self.generic_visit(node)
        node.iter = _charged(node.iter)
        cost = nodes.Const(1 + text // _CHARACTERS_A_UNIT)
        node.body.insert(0, nodes.ExprStmt(_environment_call("spend", cost)))
        return node

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        # The call itself must stay a call, since it takes the block as its argument.
        self.generic_visit(node.call)
        node.defaults = [self.visit(default) for default in node.defaults]
        node.body = [self.visit(child) for child in node.body]
        return node

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.Node:  # noqa: N802
        self.generic_visit(node.filter)
        node.body = [self.visit(child) for child in node.body]
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.node is not None:
            node.node = _charged(node.node)
        return _charged(node)

    def visit_Test(self, node: nodes.Test) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.node = _charged(node.node)
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.args = [_charged(argument) for argument in node.args]
        for keyword in node.kwargs:
            keyword.value = _charged(keyword.value)
        if isinstance(node.node, nodes.Getattr):
            node.node.node = _charged(node.node.node)
        return _charged(node)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.expr = _charged(node.expr)
        for operand in node.ops:
            operand.expr = _charged(operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _charged(node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        # A tuple that is assigned to is no value.
        self.generic_visit(node)
        return _charged(node) if node.ctx == "load" else node

    def _visit_made(self, node: nodes.Expr) -> nodes.Node:
        self.generic_visit(node)
        return _charged(node)

    visit_List = visit_Dict = visit_Concat = _visit_made  # noqa: N815
    visit_Add = visit_Mul = visit_Pow = visit_Mod = _visit_made  # noqa: N815


def _charged(node: nodes.Node) -> nodes.Call:
    return _environment_call("charge", node)


def _environment_call(method: str, argument: nodes.Node) -> nodes.Call:
    """Return a call that no template can redirect: the environment is not among its variables."""
    return nodes.Call(nodes.EnvironmentAttribute(method), [argument], [], None, None)
