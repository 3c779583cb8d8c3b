"""How much memory is available: the least of what machine and containers leave."""

from pathlib import Path

import pytest

from dis_derivations.realisation.memory import available_memory

MACHINE = "MemTotal: 4000 kB\nMemAvailable: 2000 kB\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(MACHINE, "ascii")
    return tmp_path / "proc"


def group(proc: Path, line: str, directory: str, **files: str) -> Path:
    """Put the process into a control group that has the given files."""
    (proc / "self/cgroup").write_text(f"{line}\n", "utf-8")
    place = proc.parent / "cgroup" / directory
    place.mkdir(parents=True)
    for name, text in files.items():
        (place / name.replace("__", ".")).write_text(f"{text}\n", "ascii")
    return proc.parent / "cgroup"


def test_a_machine_without_containers_gives_what_it_has_free(proc: Path, tmp_path: Path) -> None:
    assert available_memory(proc, tmp_path / "none") == 2000 * 1024


def test_a_container_gives_no_more_than_its_limit_leaves(proc: Path) -> None:
    cgroups = group(proc, "0::/box", "box", memory__max="1000000", memory__current="400000")
    assert available_memory(proc, cgroups) == 600000


def test_a_parents_limit_counts_too(proc: Path) -> None:
    cgroups = group(proc, "0::/outer/inner", "outer/inner", memory__max="max", memory__current="1")
    (cgroups / "outer/memory.max").write_text("5000\n", "ascii")
    (cgroups / "outer/memory.current").write_text("9000\n", "ascii")
    assert available_memory(proc, cgroups) == 0


def test_the_older_layout_of_control_groups_is_understood(proc: Path) -> None:
    cgroups = group(
        proc,
        "4:memory:/box",
        "memory/box",
        memory__limit_in_bytes="1000000",
        memory__usage_in_bytes="250000",
    )
    assert available_memory(proc, cgroups) == 750000


def test_no_limit_is_no_bound(proc: Path) -> None:
    cgroups = group(proc, "0::/box", "box", memory__max="max", memory__current="400000")
    assert available_memory(proc, cgroups) == 2000 * 1024


def test_nothing_is_claimed_of_a_system_that_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert available_memory(tmp_path, tmp_path) is None
