"""Every kind of error has a code for good, which the command and the page explain."""

import ast
import importlib.util
import re
from types import ModuleType

import pytest

from command_line import ROOT, Dis
from dis_command.error_codes import MODULES, error_classes, error_kinds
from dis_store.errors import DisError

PACKAGES = ("store/dis_store", "derivations/dis_derivations", "cli/dis_command")
# Codes that were given out. One may be added; none may be changed, taken away or given to something else.
GIVEN = {
    "E0200": "InvalidInputError",
    "E0201": "WrongUsageError",
    "E0202": "InvalidSettingError",
    "E0203": "UnknownReferenceError",
    "E0204": "OutputExistsError",
    "E0205": "UnconfirmedError",
    "E0206": "RetainedRootError",
    "E0210": "InvalidManifestError",
    "E0211": "LockRefusedError",
    "E0220": "UnreadableWeightsError",
    "E0221": "UnsafeWeightsError",
    "E0222": "InvalidIndexError",
    "E0223": "ChatTemplateError",
    "E0224": "RunawayTemplateError",
    "E0240": "UnsafeAddressError",
    "E0245": "RegistryReferenceError",
    "E0300": "BuildError",
    "E0301": "LockTimeoutError",
    "E0320": "TransferError",
    "E0321": "RefusedRequestError",
    "E0310": "HubError",
    "E0311": "HubAccessError",
    "E0330": "RegistryError",
    "E0331": "RegistryRefusedError",
    "E0340": "NetworkAttemptError",
    "E0390": "UnexpectedError",
    "E0400": "IntegrityError",
    "E0401": "MissingObjectError",
    "E0402": "DamagedRootError",
    "E0403": "DamagedIndexError",
    "E0404": "MismatchError",
    "E0405": "WrongSizeError",
    "E0430": "RegistryMismatchError",
    "E0440": "UntrustedError",
    "E0500": "UnfitEnvironmentError",
    "E0501": "DiskFullError",
    "E0502": "UnwritableStoreError",
    "E0503": "TooNewError",
    "E0504": "UnsupportedError",
    "E0505": "LittleMemoryError",
    "E0506": "UnwritableOutputError",
    "E0511": "LockUnavailableError",
    "E0520": "UnsupportedWeightsError",
    "E0540": "NoConfinementError",
    "E1300": "InterruptedBuildError",
}


@pytest.fixture(scope="module")
def classes() -> list[type[DisError]]:
    error_kinds()  # loads them
    return [each for each in error_classes() if each.__module__.startswith("dis_")]


def test_every_class_of_errors_has_a_code_of_its_own(classes: list[type[DisError]]) -> None:
    assert [each for each in classes if "code" not in vars(each)] == []
    codes = [each.code for each in classes]
    assert len(set(codes)) == len(codes)
    for each in classes:
        assert re.fullmatch(r"E\d{4}", each.code)
        assert each.code[1:3] == f"{each.exit_code:02}"[:2], each


def test_a_code_that_was_given_out_keeps_its_meaning(classes: list[type[DisError]]) -> None:
    assert {each.code: each.__name__ for each in classes} == GIVEN


def test_no_class_of_errors_is_overlooked(classes: list[type[DisError]]) -> None:
    known = {each.__name__ for each in classes}
    found: dict[str, str] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                bases = (
                    {ast.unparse(base) for base in node.bases}
                    if isinstance(node, ast.ClassDef)
                    else set()
                )
                if isinstance(node, ast.ClassDef) and bases & {"DisError", *known}:
                    module = path.relative_to(ROOT).with_suffix("").as_posix().partition("/")[2]
                    found[node.name] = module.replace("/", ".")
    assert set(found) == known
    assert set(found.values()) == set(MODULES)


def test_nothing_is_raised_without_a_kind() -> None:
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            calls = [
                each
                for each in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(each, ast.Call)
            ]
            assert not [call for call in calls if ast.unparse(call.func) == "DisError"], path


def test_every_code_is_explained(dis: Dis) -> None:
    listed = dis("help", "errors").out.splitlines()
    assert [line.split()[0] for line in listed] == sorted(GIVEN)
    for code in GIVEN:
        text = dis("help", code).out
        assert text.startswith(f"{code}: ")
        assert "Exit code " in text
        document = dis("help", code, "--json").document["error"]
        assert document["code"] == code
        assert document["meaning"].endswith(".")
    assert {each["code"] for each in dis("help", "errors", "--json").document["errors"]} == set(
        GIVEN
    )


def test_a_code_that_nobody_has_is_refused(dis: Dis) -> None:
    outcome = dis("help", "E0209")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "no error has the code E0209" in outcome.err
    assert "did you mean" in outcome.err


def _page_writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("error_codes_page", ROOT / "docs/error_codes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_codes_of_the_program() -> None:
    page = (ROOT / "docs/reference/errors.md").read_text("utf-8")
    assert page == _page_writer().with_table(page), "run: python docs/error_codes.py"
    assert re.findall(r"^\| `(E\d{4})`", page, re.MULTILINE) == sorted(GIVEN)
