"""What pip resolved, read from its report, and what of it is needed."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.environments.pip_report import ResolvedWheel, needed_wheels, parse_report
from dis_derivations.environments.wheel_names import input_name, normalised, parse_wheel_name
from dis_derivations.environments.wheel_source import _platform_options
from dis_derivations.graph.derivation import Derivation, OutputReference
from dis_store.digest import Digest
from dis_store.errors import BuildError

MARKERS = {"python_version": "3.11", "sys_platform": "linux", "os_name": "posix"}
DIGEST = "ab" * 32


def report(url: str, **metadata: Any) -> dict[str, Any]:
    info = {"url": url, "archive_info": {"hashes": {"sha256": DIGEST}}}
    about = {"name": "One", "version": "1.0", **metadata}
    return {"version": "1", "install": [{"download_info": info, "metadata": about}]}


def wheels(**requires: list[str]) -> dict[str, ResolvedWheel]:
    return {
        name: ResolvedWheel(name, "1.0", f"{name}-1.0-py3-none-any.whl", None, "", tuple(texts))
        for name, texts in requires.items()
    }


def names(found: list[ResolvedWheel]) -> list[str]:
    return [each.name for each in found]


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1))
def test_a_wheel_of_this_machine_is_found_under_any_name_of_a_directory(name: str) -> None:
    place = Path("/") / name / "One-1.0-py3-none-any.whl"
    (wheel,) = parse_report(report(f"{place.as_uri()}#sha256={DIGEST}")).values()
    assert (wheel.is_local, wheel.path, wheel.origin) == (True, place, "")


def test_the_address_that_holds_a_token_is_not_shown() -> None:
    (wheel,) = parse_report(report("https://host/One-1.0-py3-none-any.whl?token=canary")).values()
    assert not wheel.is_local
    assert "canary" not in f"{wheel!r}{wheel.origin}"
    assert "canary" in wheel.url


def test_the_origin_of_a_wheel_has_no_secret_in_it() -> None:
    url = "https://me:secret@host/a%2Bb/One-1.0%2Bcpu-py3-none-any.whl?token=secret#sha256=x"
    (wheel,) = parse_report(report(url)).values()
    assert wheel.origin == "https://host/a%2Bb/One-1.0%2Bcpu-py3-none-any.whl"
    assert (wheel.name, wheel.version, wheel.sha256) == ("one", "1.0+cpu", f"sha256:{DIGEST}")
    local = report("file:///home/me/One-1.0-py3-none-any.whl")
    assert next(iter(parse_report(local).values())).origin == ""


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"version": "2", "install": []},
        {"version": "1", "install": [{}]},
        report("https://host/one-1.0.tar.gz"),
        report("https://host/one-1.0-py3-none-any.whl", name="two"),
        report("https://host/one-1.0-py3-none-any.whl", name="-"),
    ],
)
def test_a_report_of_another_form_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(BuildError, match="report of a resolution cannot be read"):
        parse_report(document)


def test_only_what_is_needed_is_taken_by_the_markers_of_the_interpreter() -> None:
    found = wheels(
        a=["b", "c[fast]>=1; sys_platform == 'linux'", "w; sys_platform == 'win32'"],
        b=[], c=["d; extra == 'fast'", "e; extra == 'slow'"], d=["a"], e=[], w=[],
    )  # fmt: skip
    assert names(needed_wheels(found, ["a"], (), MARKERS)) == ["a", "b", "c", "d"]


def test_what_is_excluded_takes_with_it_what_only_it_needs() -> None:
    found = wheels(a=["b", "c"], b=["d", "e"], c=["e"], d=[], e=[])
    assert names(needed_wheels(found, ["a"], ["b"], MARKERS)) == ["a", "c", "e"]


def test_a_need_that_was_not_resolved_is_an_error_and_not_left_out() -> None:
    with pytest.raises(BuildError, match="resolved no gone, which a needs"):
        needed_wheels(wheels(a=["gone"]), ["a"], (), MARKERS)


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("a-1-py3-none-any.whl", "--platform any --abi none --implementation py"),
        ("a-1-py2.py3-none-any.whl", "--platform any --abi none --implementation py"),
        (
            "a-1-cp38-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
            (
                "--platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --abi abi3 "
                "--implementation cp --python-version 3.8"
            ),
        ),
        (
            "a-1-1-py312-none-any.whl",
            "--platform any --abi none --implementation py --python-version 3.12",
        ),
    ],
)
def test_pip_is_asked_for_the_very_wheel(file: str, options: str) -> None:
    assert " ".join(_platform_options(file)) == options


def test_a_wheel_for_a_python_that_nobody_knows_is_refused() -> None:
    with pytest.raises(BuildError, match="Python that is not known"):
        list(_platform_options("a-1-x-none-any.whl"))


def test_names_have_one_spelling() -> None:
    assert {normalised(each) for each in ("a_B.c", "A-b-C", "a..b__c")} == {"a-b-c"}
    for wrong in ("", "-a", "a b", "a;b", "a" * 200):
        with pytest.raises(ValueError, match="is not the name"):
            normalised(wrong)
    with pytest.raises(ValueError, match="wheel"):
        parse_wheel_name("a.zip")


@given(st.from_regex(r"[a-z0-9](-?[a-z0-9]){0,127}", fullmatch=True))
def test_any_package_can_name_an_input(package: str) -> None:
    reference = OutputReference(Digest("0" * 64), "out")
    Derivation(
        "x", "environment", 1, {input_name(package): reference}, {}, "any", ("out",), ("out",)
    )
