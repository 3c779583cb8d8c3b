"""Arguments that are wrong, or that lead to what is somebody else's: refused, and nothing is overwritten."""

import sqlite3
from pathlib import Path

import pytest

from users import User


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("inference.n_prompts", "has no '=' and no value"),
        ("=1", "names no field"),
        ("a..b=1", "names no field"),
        ("a.b=1", "/a is not a known field"),
        ("inference.n_promts=1", "did you mean 'n_prompts'?"),
        ("inference.n_prompts=x", 'must be an integer, not "x"'),
        ("inference.n_prompts=NaN", 'must be an integer, not "NaN"'),
        ("inference.n_prompts=" + "9" * 30, "must be an integer"),
        ("inference=null", "/inference must be an object"),
        ("metadata.name.x=1", "leads nowhere"),
        ("metadata.name=a\x1b[2J", "/metadata/name must be"),
        ("metadata.description=\udcff", "is not UTF-8"),
        ("x_base_manifest=other.json", "cannot change x_base_manifest"),
    ],
)
def test_a_wrong_override_is_refused(user: User, override: str, says: str) -> None:
    user.refused("realize", "tiny.json", "--set", override, says=says)
    user.does("realize", "tiny.json", "--set", "inference.n_prompts=2")


@pytest.mark.parametrize("target", ["nothing", "Weights", "run ", "\x1b[2J", "../run"])
def test_an_unknown_target_is_refused_with_the_known_ones(user: User, target: str) -> None:
    says = ("target", "targets are", "weights, tokenizer, config")
    user.does("lock", "tiny.json")
    user.refused("realize", f"tiny.json#{target}", says=says)


def test_a_target_without_a_name_is_refused(user: User) -> None:
    user.refused("realize", "tiny.json#", says="names no target")


@pytest.mark.parametrize("jobs", ["0", "-1", "x", "1.5", ""])
def test_a_number_of_jobs_that_is_none_is_refused(user: User, jobs: str) -> None:
    user.refused("realize", "tiny.json", "-j", jobs, says="invalid value for '-j'")


def test_a_huge_number_of_jobs_is_no_trouble(user: User) -> None:
    user.does("realize", "tiny.json", "-j", "9" * 30, "--set", "metadata.description=jobs")


NAMES = {
    "-x": "begins with '-'",
    ".x": "begins with '.'",
    "../x": "is refused",
    "a/b": "a slash",
    "": "is refused",
    " ": "is refused",
    "x.json": "is refused",
    "a" * 300: "is refused",
    "a\nb": "control character U+000A",
    "\x1b[2J": "control character U+001B",
    "\udcff": "is refused",
}


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_that_is_no_name_is_refused_before_anything_is_built(user: User, name: str) -> None:
    argv = ("realize", "tiny.json", "--set", "metadata.description=name", f"--name={name}")
    user.refused(*argv, says=NAMES[name])
    assert not user.path("tiny.lock.json").exists()


@pytest.mark.parametrize("name", ["a" * 250, "é🜁" * 20, "-x", "a#b", "a" * 64, "x.json"])
def test_a_strange_name_of_a_manifest_works_everywhere(user: User, name: str) -> None:
    user.edit({"metadata.name": name})
    user.does("realize", "tiny.json", "--name", "strange")
    for command in ("show", "log", "inspect", "path-info"):
        user.does(command, "strange")
    assert name in user.does("inspect", "strange").out
    user.does("list")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\nb", "a\x1b[2J", "a\u202eb", "a" * 256])
def test_a_bad_name_of_a_manifest_is_refused(user: User, name: str) -> None:
    user.edit({"metadata.name": name})
    user.refused("realize", "tiny.json", says="/metadata/name must be a name of 1 to 255 bytes")


REFERENCES = {
    "nothing": "nothing is called 'nothing'",
    "fisrt": "did you mean first?",
    "": "names nothing",
    "0123456": "at least 8 digits",
    "01234567": "no object has a digest that begins with 01234567",
    "./gone": "there is no file ./gone",
    "prompts.txt": "write ./prompts.txt",
    "./prompts.txt": "is not valid JSON",
    "tiny.json": "is a manifest, not a run",
    ".": "no run directory",
    "model/": "no run directory",
    "x" * 5000: "cannot be read",
    "\x1b[2J": "nothing is called '\\x1b[2J'",
}


@pytest.mark.parametrize("reference", REFERENCES, ids=ascii)
def test_a_reference_to_no_run_is_refused(user: User, reference: str) -> None:
    user.does("realize", "tiny.json", "--name", "first")
    user.refused("show", "--", reference, says=REFERENCES[reference])
    user.refused("diff", "first", reference, says=REFERENCES[reference])


def test_the_beginning_of_two_digests_is_refused(user: User) -> None:
    user.does("realize", "tiny.json", "--name", "first")
    digest = Path(user.does("path-info", "first").out.strip()).name
    twin = digest[:8] + ("1" if digest[8] == "0" else "0") * 56
    # Digests with eight equal digits are not to be had; a row of the index is enough to look one up.
    with sqlite3.connect(user.store / "index.sqlite") as index:
        index.execute("INSERT INTO objects(digest, size) VALUES (?, 1)", [twin])
    try:
        user.refused("show", digest[:8], says=digest[:8])
        user.does("show", digest[:9])
    finally:
        with sqlite3.connect(user.store / "index.sqlite") as index:
            index.execute("DELETE FROM objects WHERE digest = ?", [twin])


def test_a_place_in_a_registry_needs_a_tag_or_a_digest(user: User) -> None:
    user.refused("show", "oci://example.org/x", code=2, says="oci://HOST/REPOSITORY:TAG")


def test_a_place_in_a_registry_is_no_object_yet(user: User) -> None:
    place = "oci://example.org/x:1"
    user.refused("root", "add", "mine", place, code=2, says=f"dis pull {place}")


@pytest.mark.parametrize("name", ["run.tar", "run.tar.gz", "run.tar.zst"])
@pytest.mark.parametrize("content", [b"", b"no archive", bytes(1024)])
def test_an_archive_that_is_none_is_refused(user: User, name: str, content: bytes) -> None:
    user.refused("show", name, says=f"there is no file {name}")
    user.write(name, content)
    code = user.dis("show", name).code
    assert code in {2, 4}
    user.refused("show", name, code=code, says=name)


@pytest.mark.parametrize("taken", ["prompts.txt", "model"])
def test_nothing_of_the_users_is_replaced_by_a_result(user: User, taken: str) -> None:
    user.does("realize", "tiny.json")
    user.refused("realize", "tiny.json", "--out-link", taken, says="something else is there")
    user.refused("run", "tiny.json", "--run-dir", taken, says="is in the way")
    user.does("run", "tiny.json", "--run-dir", "mine")


@pytest.mark.parametrize("taken", ["prompts.txt", "tiny.json", "model/model.safetensors"])
def test_nothing_of_the_users_is_replaced_by_a_lock(user: User, taken: str) -> None:
    user.refused("lock", "tiny.json", "--output", taken, says=(taken, "move it away"))
    user.edit({"artifacts.lockfile": taken})
    user.refused("realize", "tiny.json", says=(taken, "move it away"))


def test_a_working_directory_that_is_full_is_no_run_directory(user: User) -> None:
    user.does("realize", "tiny.json")
    user.refused("run", "tiny.json", "--run-dir", ".", says="is in the way")


LINKS: dict[str, tuple[str, str]] = {
    "a long name": ("x" * 300, "File name too long"),
    "no text": ("\udcff", "its path is not UTF-8"),
    "below a file": ("prompts.txt/link", "is not a directory"),
    "nowhere": ("nowhere/link", "there is no directory"),
}


@pytest.mark.parametrize("case", LINKS)
def test_a_result_link_that_cannot_be_made_is_refused_before_anything_is_built(
    user: User, case: str
) -> None:
    link, says = LINKS[case]
    objects = sorted(user.store.glob("objects/*/*"))
    arguments = ("realize", "tiny.json", "--set", "inference.n_prompts=1", "--out-link", link)
    user.refused(*arguments, says=("the result link", "cannot be made", says))
    assert sorted(user.store.glob("objects/*/*")) == objects


def test_a_result_link_from_a_directory_that_is_gone_is_refused(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    config = user.path("tiny.json")
    says = ("the result link here", "the working directory is gone")
    user.refused("realize", config, "--out-link", "here", code=5, says=says)


@pytest.mark.parametrize(("name", "says"), [("", "it is empty"), ("n\udcff", "it is not UTF-8")])
def test_a_name_that_no_root_can_have_is_called_a_name(user: User, name: str, says: str) -> None:
    for command in ("realize", "run"):
        said = user.refused(command, "tiny.json", "--name", name, says=("the root name", says))
        assert "path" not in said


@pytest.mark.parametrize("option", ["run --token-output", "run --run-log-output", "build --output"])
def test_no_output_takes_the_place_of_an_input(user: User, option: str) -> None:
    command, flag = option.split()
    user.does("lock", "tiny.json")
    user.write("derived.json", {"extends": "tiny.json"})
    user.path("other-name.txt").symlink_to("prompts.txt")
    user.path("alias.json").hardlink_to(user.path("model/config.json"))
    for output in ("tiny.json", "tiny.lock.json", "./prompts.txt", "model/model.safetensors"):
        says = (f"{output.removeprefix('./')} will not be overwritten", "name another file")
        user.refused(command, "tiny.json", flag, output, says=says)
    for output in ("other-name.txt", "alias.json"):
        user.refused(command, "tiny.json", flag, output, says="will not be overwritten")
    user.does(command, "tiny.json", flag, "new.json")
    user.does(command, "tiny.json", flag, "new.json")
