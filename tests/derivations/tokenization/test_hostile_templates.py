import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.tokenization.chat_template import (
    ChatTemplate,
    ChatTemplateError,
    RunawayTemplateError,
)
from dis_derivations.tokenization.conversation import Message

LONG = "{% set long = 'x' * 1000000 %}"
GROWING = (
    "{% set ns = namespace(x=START) %}{% for i in range(100) %}{% set ns.x = NEXT %}{% endfor %}"
)


def rendered(source: str) -> str:
    template = ChatTemplate.compile(source, special_tokens={"bos_token": "<s>"}, pinned_date=None)
    return template.render((Message("user", "hello"),))


ESCAPES = [
    "{{ ''.__class__.__mro__ }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__class__.__base__.__subclasses__() }}",
    "{{ ''['__class__'].__mro__ }}",
    "{{ (''|attr('__class__')).__mro__ }}",
    "{{ messages|map(attribute='__class__')|first|string|length + 'x' }}",
    "{{ cycler.__init__.__globals__.os }}",
    "{{ raise_exception.__globals__['json'] }}",
    "{{ self._TemplateReference__context.environment }}",
    "{{ namespace.__init__.__globals__.x }}",
    "{{ ''.format.__globals__.x }}",
    "{{ '{0.__class__.__mro__.x}'.format('').y.z }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update(role='x') }}",
    "{{ messages[0].pop('role') }}",
    "{% set messages[0].role = 'system' %}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}{{ os }}",
    "{% extends 'x' %}",
    "{{ [1, 2]|random }}",
    "{{ lipsum() }}",
]

PRINTED_OBJECTS = [
    "{{ self }}",
    "{{ cycler }}",
    "{{ joiner() }}",
    "{{ ''.upper }}",
    "{{ range(3)|map('string') }}",
    "{% macro f() %}{% endmacro %}{{ f }}",
    "{{ namespace() }}",
    "{{ loop }}{% for m in messages %}{{ loop }}{% endfor %}",
]

RUNAWAYS = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(50) }}",
    "{% for x in [[[1]]] recursive %}{{ loop([[[1]]]) }}{% endfor %}",
    "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "{{ 'a' * 10**9 }}",
    "{{ 10**9 * 'a' }}",
    "{{ [0] * 10**9 }}",
    "{{ 9 ** (9 ** 9) }}",
    "{{ 2 ** 4000 * 2 ** 4000 }}",
    GROWING.replace("START", "'abcdefgh'").replace("NEXT", "ns.x + ns.x"),
    GROWING.replace("START", "'abcdefgh'").replace("NEXT", "ns.x ~ ns.x"),
    GROWING.replace("START", "[1]").replace("NEXT", "[ns.x, ns.x]"),
    GROWING.replace("START", "[1]").replace("NEXT", "(ns.x, ns.x)"),
    GROWING.replace("START", "[1]").replace("NEXT", "{'a': ns.x, 'b': ns.x}"),
    GROWING.replace("START", "[1]").replace("NEXT", "dict(a=ns.x, b=ns.x)"),
    GROWING.replace("START", "'abcdefgh'").replace("NEXT", "'%s%s' % (ns.x, ns.x)"),
    GROWING.replace("START", "'abcdefgh'").replace("NEXT", "'{0}{0}'.format(ns.x)"),
    GROWING.replace("START", "3").replace("NEXT", "ns.x * ns.x"),
    "{{ 'a'.center(10**9) }}",
    "{{ 'a'.ljust(width=10**9) if false else 'a'.zfill(10**9) }}",
    "{{ ('\t' * 100000).expandtabs(9999) }}",
    "{{ 'a'|center(1000000000) }}",
    "{{ 'a'|indent(1000000000) }}",
    "{{ messages|tojson(indent=1000000000) }}",
    "{{ messages|batch(1000000000, 'x')|list }}",
    "{{ messages|slice(1000000000)|list }}",
    "{{ 1.5|round(1000000000) }}",
    "{{ '%0999999999d' % 1 }}",
    "{{ '%*d' % (999999999, 1) }}",
    "{{ '%999999999d'|format(1) }}",
    "{{ '{:999999999}'.format(1) }}",
    "{{ '{:{}}'.format(1, 999999999) }}",
    "{{ '{a:999999999}'.format_map({'a': 1}) }}",
    LONG + "{{ ('{0}' * 10000).format(long) }}",
    LONG + "{{ ('%(a)s' * 10000) % {'a': long} }}",
    LONG + "{{ long.join(range(99999)|map('string')) }}",
    LONG + "{{ range(99999)|map('string')|join(long) }}",
    LONG + "{{ range(99999)|join(long) }}",
    LONG + "{{ long.replace('x', long) }}",
    LONG + "{{ long|replace('x', long) }}",
    LONG + "{{ ('\n' * 10000 ~ 'x')|indent(long) }}",
    LONG + "{{ ('x ' * 10000)|wordwrap(1, wrapstring=long) }}",
    LONG + "{{ 'x'.translate({120: long}) }}",
    LONG + "{% for i in range(1000) %}{{ long }}{% endfor %}",
    LONG + "{% set x %}{% for i in range(1000) %}{{ long }}{% endfor %}{% endset %}",
    LONG + "{% for i in range(99999) %}{% if long.count('y') %}{% endif %}{% endfor %}",
    LONG + "{% for i in range(99999) %}{% if long|upper == long %}{% endif %}{% endfor %}",
    "{% set x %}{% for i in range(99999) %}" + "y" * 100_000 + "{% endfor %}{% endset %}",
    "{% for x in range(99999) %}{% for c in 'x' * 1000000 %}{% break %}{% endfor %}{% endfor %}",
    "{# " + "x" * (1 << 20) + " #}",
]


@pytest.mark.parametrize("source", ESCAPES)
def test_a_template_cannot_leave_the_sandbox(source: str) -> None:
    with pytest.raises(ChatTemplateError) as caught:
        rendered(source)
    assert not isinstance(caught.value, RunawayTemplateError)


@pytest.mark.parametrize("source", PRINTED_OBJECTS)
def test_nothing_with_an_address_is_printed(source: str) -> None:
    with pytest.raises(ChatTemplateError, match="the chat template prints a"):
        rendered(source)


@pytest.mark.parametrize("source", RUNAWAYS, ids=range(len(RUNAWAYS)))
def test_a_template_cannot_run_away(source: str) -> None:
    with pytest.raises(RunawayTemplateError) as caught:
        rendered(source)
    assert caught.value.hint == "give another template as model.chat_template.file"


def test_a_namespace_that_holds_itself_prints_nothing_of_it() -> None:
    assert rendered("{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}") == "[<namespace>]"


def test_a_template_cannot_take_the_meter_away() -> None:
    source = "{% set spend = 1 %}{% set charge = 1 %}{% set environment = 1 %}"
    with pytest.raises(RunawayTemplateError):
        rendered(source + RUNAWAYS[0])


def test_each_rendering_has_a_budget_of_its_own() -> None:
    source = LONG + "{% for i in range(90) %}{% if long.count('y') %}{% endif %}{% endfor %}x"
    template = ChatTemplate.compile(source, special_tokens={}, pinned_date=None)
    assert {template.render((Message("user", "hello"),)) for _ in range(5)} == {"x"}


PIECES = [
    *("{{", "}}", "{%", "%}", "{#", "#}", " for x in ", " endfor ", " if ", " endif ", " set "),
    *("messages", ".", "[", "]", "(", ")", "|", "~", "*", "**", "'", "a", "1", "9", " in ", "="),
    *("range", "join", "format", "center", " macro f() ", " endmacro ", " call ", "loop", ",", " "),
]


@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join) | st.text(max_size=40))
def test_any_template_is_rendered_or_refused(source: str) -> None:
    try:
        assert isinstance(rendered(source), str)
    except ChatTemplateError as error:
        assert "template" in error.what  # noqa: PT017 - rendering it is right too
