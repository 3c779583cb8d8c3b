"""Documents can be relied on: the tests, modules and pages that they name are there, and nothing is left over."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SCRIPTS = sorted(path for path in (ROOT / "docs").rglob("*") if path.suffix in {".py", ".sh"})
PACKAGES = [ROOT / name for name in ("store/dis_store", "derivations/dis_derivations")]
MODULES = sorted(
    module for package in [*PACKAGES, ROOT / "cli/dis_command"] for module in package.rglob("*.py")
)
_LEFT_OVER = re.compile(r"(?<![\w.])/(?:work|root)/|\b(?:TODO|FIXME)\b")
_TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
_BARE_TEST = re.compile(r"`(test_\w+)`")
_MODULE = re.compile(r"`(dis_\w+/[\w/]+\.py)`")
_LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]*))?\)")
# What could open a connection; `socket` itself is imported for the name of the host.
_NETWORK = {
    "aiohttp",
    "asyncio",
    "ftplib",
    "http",
    "httpx",
    "httpx2",
    "huggingface_hub",
    "requests",
    "smtplib",
} | {
    "ssl",
    "urllib",
    "urllib3",
}
# What may: it contacts what a manifest names.
_FETCHING = (
    "derivations/dis_derivations/transport/",
    "derivations/dis_derivations/registry/",
    "derivations/dis_derivations/sources/hub_",
    "derivations/dis_derivations/engines/openai_compatible/",
)


# What uses sockets to take the network away, and to see who wants it, and what asks the engine of this machine.
_CONFINING = "derivations/dis_derivations/confinement/"
_DOCKER = (
    "derivations/dis_derivations/images/attachment.py",
    "derivations/dis_derivations/images/docker_engine.py",
)


def of_the_checkout(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", [*DOCUMENTS, *SCRIPTS], ids=of_the_checkout)
def test_no_document_names_a_place_of_its_making_or_work_that_is_left(document: Path) -> None:
    assert _LEFT_OVER.findall(document.read_text("utf-8")) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=of_the_checkout)
def test_links_lead_to_files_and_headings(document: Path) -> None:
    for target, heading in _LINK.findall(document.read_text("utf-8")):
        file = document.parent / target if target else document
        assert file.exists(), target
        assert not heading or heading in anchors(file), f"{target}#{heading}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=of_the_checkout)
def test_tests_and_modules_that_a_document_names_are_there(document: Path) -> None:
    text = document.read_text("utf-8")
    for file, name in _TEST.findall(text):
        assert f"def {name}(" in (ROOT / "tests" / file).read_text("utf-8"), f"{file}::{name}"
    for module in _MODULE.findall(text):
        assert any(of_the_checkout(path).endswith(f"/{module}") for path in MODULES), module
    everything = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in _BARE_TEST.findall(text) if f"def {name}(" not in everything] == []


def test_every_page_can_be_reached_from_the_entry_page() -> None:
    found: set[Path] = set()
    waiting = [ROOT / "docs/README.md"]
    while waiting:
        document = waiting.pop().resolve()
        if document not in found and document.suffix == ".md":
            found.add(document)
            links = _LINK.findall(document.read_text("utf-8"))
            waiting += [document.parent / target for target, _ in links if target]
    assert set((ROOT / "docs").rglob("*.md")) - found == set()


def test_every_decision_says_what_why_and_what_follows() -> None:
    for decision in (ROOT / "docs/decisions").glob("0*.md"):
        headings = re.findall(r"^## (.*)$", decision.read_text("utf-8"), re.MULTILINE)
        assert headings == ["Decision", "Why", "Consequences"], decision.name


def test_the_threat_model_and_the_conventions_name_evidence() -> None:
    for name, least in (("internals/threat-model.md", 40), ("reference/conventions.md", 20)):
        assert len(_TEST.findall((ROOT / "docs" / name).read_text("utf-8"))) >= least
    conventions = (ROOT / "docs/reference/conventions.md").read_text("utf-8")
    items = re.split(r"^\d+\. ", conventions, flags=re.MULTILINE)[1:]
    assert len(items) == 20
    assert [item for item in items if not _TEST.search(item)] == []


def test_no_module_but_those_that_fetch_can_open_a_network_connection() -> None:
    for module in MODULES:
        if of_the_checkout(module).startswith((*_FETCHING, _CONFINING, *_DOCKER)):
            continue
        tree = ast.parse(module.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported = {(node.module or "").partition(".")[0]}
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "socket":
                assert node.attr == "gethostname", f"{of_the_checkout(module)}: {ast.unparse(node)}"
                continue
            else:
                continue
            assert not imported & _NETWORK, of_the_checkout(module)
