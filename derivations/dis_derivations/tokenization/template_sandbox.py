"""The jinja2 environment of chat templates: Hugging Face's, in a sandbox that cannot run away.

There is no chance in it (`random`, `lipsum`), and it prints nothing that shows an address in memory:
the same conversation is the same prompt every time.
"""

import json
from collections.abc import Callable
from typing import Any

from jinja2 import Template, Undefined, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from dis_derivations.tokenization.template_cost import Budget, with_charges
from dis_derivations.tokenization.template_errors import GIVE_ANOTHER, ChatTemplateError
from dis_derivations.tokenization.template_guards import (
    check_format,
    check_operation,
    checked_arguments,
    guarded_filter,
)

_CALL_COST = 4
_RANDOM_FILTERS = ("random",)
_RANDOM_GLOBALS = ("lipsum",)
_PRINTABLE = (str, int, float, type(None), list, tuple, dict, Undefined)


class QuietNamespace(Namespace):
    """The `namespace` of templates, which may hold itself and so must not print what it holds."""

    def __repr__(self) -> str:
        return "<namespace>"


class Generation(Extension):
    """`{% generation %}…{% endgeneration %}` marks what a model said; for prompts it is the body."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it so

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """Return what is between the two tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """A sandbox in which a template may neither change what it is given nor run away.

    Attributes:
        budget: What the rendering that runs may still spend.
    """

    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[Generation, loopcontrols],
            finalize=self.printable,
            # Folding constants would run operations before anything charges for them.
            optimized=False,
        )
        self.budget = Budget()
        self.filters = {
            name: guarded_filter(name, function)
            for name, function in (self.filters | {"tojson": to_json}).items()
            if name not in _RANDOM_FILTERS
        }
        for name in _RANDOM_GLOBALS:
            self.globals.pop(name, None)
        self.globals |= {"raise_exception": raise_exception, "namespace": QuietNamespace}

    def compiled(self, source: str) -> Template:
        """Return a template that pays from `budget` for what it does."""
        return self.from_string(with_charges(self.parse(source)))

    def charge(self, value: Any) -> Any:
        """Pay for a value; return it. Compiled templates call this."""
        return self.budget.charge(value)

    def spend(self, units: int) -> None:
        """Pay for a turn of a loop. Compiled templates call this."""
        self.budget.spend(units)

    def printable(self, value: Any) -> Any:
        """Return a value that is about to be printed, paid for."""
        if not isinstance(value, _PRINTABLE):
            raise ChatTemplateError(
                f"the chat template prints a {type(value).__name__}",
                cause="how it looks differs from run to run",
                hint=GIVE_ANOTHER,
            )
        return self.budget.charge(value)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Run an operator of `intercepted_binops`, unless its result would be huge."""
        check_operation(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what a template calls, within the budget."""
        if getattr(called, "__self__", None) is self:
            return called(*args)  # the meter itself
        self.budget.spend(_CALL_COST)
        args = checked_arguments(called, args, kwargs)
        return super().call(context, called, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return the safe version of a text's `format` and `format_map`, within bounds."""
        formatting = super().wrap_str_format(value)
        if formatting is None:
            return None

        def guarded(*args: Any, **kwargs: Any) -> str:
            check_format(value.__self__, [*args, *kwargs.values()])
            return formatting(*args, **kwargs)

        return guarded


def raise_exception(message: object) -> None:
    """Refuse the conversation: what templates call when they do not accept it."""
    raise ChatTemplateError(
        "the chat template refuses the conversation",
        cause=str(message)[:400],
        hint="change the messages: their roles, their order, or what they hold",
    )


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return JSON as models were trained to see it; jinja2's own filter escapes it for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
