import json
import subprocess
from pathlib import Path

import pytest

from dis_derivations.tokenization.chat_template import ChatTemplate, ChatTemplateError
from dis_derivations.tokenization.conversation import Message

ORACLE = Path(__file__).parents[3] / ".venv-oracle"
CONVERSATION = (Message("system", "be <brief> & ü"), Message("user", "  hello\nworld "))

TEMPLATES = {
    "roles": (
        "{{ bos_token }}{% for message in messages %}\n"
        "    {%- if loop.first and message.role == 'system' %}\n"
        "<<{{ message['content'] | trim }}>>\n"
        "    {% else %}\n"
        "[{{ loop.index0 }} {{ message.role }}] {{ message.content.strip() }}{{ eos_token }}\n"
        "    {% endif %}\n"
        "{% endfor %}\n"
        "{% if add_generation_prompt %}answer:{% endif %}\n"
    ),
    "slices": (
        "{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
        "{% for m in messages[1:][::-1] %}{{ system ~ m.content.split('\n')[-1] }}{% endfor %}"
    ),
    "namespace": (
        "{% set ns = namespace(n=0, found=false) %}{% for m in messages %}"
        "{% if m.content is string and 'world' in m.content %}{% set ns.found = true %}"
        "{% continue %}{% endif %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}{{ ns.found }}"
    ),
    "macro": (
        "{% macro turn(m, end='.') %}({{ m.role }}{{ caller(1) if caller }}){{ end }}{% endmacro %}"
        "{{ turn(messages[0]) }}{% call(x) turn(messages[1], end='!') %}{{ x }}z{% endcall %}"
    ),
    "json": "{{ messages | tojson }}{{ messages | tojson(indent=2) }}{{ '<&\u00fc' | tojson }}",
    "generation": "{% generation %}{{ messages[1].content }}{% endgeneration %}.",
    "nothing": "{{ tools }}{{ documents }}{{ undefined_name }}{{ none }}{{ true }}{{ 1.50 }}",
    "filters": (
        "{{ messages | map(attribute='role') | join('+') | upper }}"
        "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
        "{% filter replace('o', '0') %}foo{% endfilter %}{{ '%s-%03d' | format('a', 7) }}"
        "{{ '{}{x}'.format(1, x=2) }}{{ [3, 1] | sort | first }}{{ 'a,b'.split(',') }}"
        "{{ '7' * 3 }}{{ 2 ** 5 }}{{ 7 % 4 }}{{ 'a' in 'cat' }}{{ {'a': [1, 'b']} }}"
    ),
    "unpacking": (
        "{% for key, value in messages[0].items() %}{{ key }}={{ value }};{% endfor %}"
        "{% for item in [[1, [2]], [3]] recursive %}"
        "{% if item is iterable %}<{{ loop(item) }}>{% else %}{{ item }}{% endif %}{% endfor %}"
        "{% for i in range(5) if i is odd %}{{ i }}{% else %}none{% endfor %}"
        "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set block %}x{{ b }}{% endset %}{{ block }}"
    ),
    "no date": "{% if strftime_now is defined %}date{% else %}26 Jul 2024{% endif %}",
}
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def rendered(source: str, pinned_date: str | None = None) -> str:
    template = ChatTemplate.compile(source, special_tokens=SPECIAL, pinned_date=pinned_date)
    return template.render(CONVERSATION)


def refusal(source: str, pinned_date: str | None = None) -> ChatTemplateError:
    with pytest.raises(ChatTemplateError) as caught:
        rendered(source, pinned_date)
    return caught.value


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "roles",
            "<s><<be <brief> & ü>>\n[1 user] hello\nworld</s>\nanswer:",
        ),
        ("slices", "be <brief> & üworld "),
        ("namespace", "1True"),
        ("macro", "(system).(user1z)!"),
        ("generation", "  hello\nworld ."),
        ("nothing", "NoneNoneNoneTrue1.5"),
        ("filters", "SYSTEM+USER1f00a-007121['a', 'b']777323True{'a': [1, 'b']}"),
        ("no date", "26 Jul 2024"),
    ],
)
def test_templates_render_as_they_are_meant(name: str, expected: str) -> None:
    assert rendered(TEMPLATES[name]) == expected


def test_one_template_renders_many_conversations() -> None:
    source = "{% for m in messages %}{{ m.content }}{% endfor %}"
    template = ChatTemplate.compile(source, special_tokens={}, pinned_date=None)
    long = tuple(Message("user", "x" * 100_000) for _ in range(100))
    for _ in range(30):
        assert len(template.render(long)) == 10_000_000


def test_a_pinned_date_is_the_date() -> None:
    assert rendered("{{ strftime_now('%d %b %Y') }}", "2024-07-26") == "26 Jul 2024"
    assert rendered("{{ strftime_now('%H:%M%%') }}", "2024-07-26T12:30:00") == "12:30%"


def test_without_a_pinned_date_the_field_is_named() -> None:
    error = refusal("{{ strftime_now('%Y') }}")
    assert "the manifest pins none" in error.what
    assert error.hint == "pin a date: --set inference.pinned_date=YYYY-MM-DD"


def test_dates_that_depend_on_the_machine_are_refused() -> None:
    assert "'%s'" in str(refusal("{{ strftime_now('%s') }}", "2024-07-26"))
    assert "is not a date: 'today'" in str(refusal("", "today"))


def test_a_template_may_refuse_the_conversation() -> None:
    error = refusal("{{ raise_exception('no system role') }}")
    assert str(error) == "the chat template refuses the conversation: no system role"


def test_a_fault_of_the_template_is_said_with_its_line() -> None:
    assert "line 2: TemplateSyntaxError" in str(refusal("\n{% if %}"))
    assert "UndefinedError" in str(refusal("{{ messages.x.y }}"))


@pytest.mark.oracle
@pytest.mark.skipif(not (ORACLE / "ready").exists(), reason="built by `make oracle`")
def test_transformers_renders_the_same() -> None:
    program = (
        "import json, sys\n"
        "from transformers.utils.chat_template_utils import render_jinja_template as render\n"
        "given = json.load(sys.stdin)\n"
        "print(json.dumps([render([given['messages']], chat_template=template,\n"
        "    add_generation_prompt=True, **given['special'])[0][0]\n"
        "    for template in given['templates']]))"
    )
    templates = {name: source for name, source in TEMPLATES.items() if name != "no date"}
    given = {
        "messages": [message.as_json() for message in CONVERSATION],
        "special": SPECIAL,
        "templates": list(templates.values()),
    }
    oracle = subprocess.run(
        [ORACLE / "bin" / "python", "-c", program],
        input=json.dumps(given),
        text=True,
        check=True,
        capture_output=True,
    )
    assert [rendered(source) for source in templates.values()] == json.loads(oracle.stdout)
