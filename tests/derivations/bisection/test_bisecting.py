"""Causes are found by experiment: weights, tokenizer, template and seed changed together, one of them guilty."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from bundles import Answer, Run
from dis_derivations.bisection.bisecting import bisect, held_by_machine, plan, question
from dis_derivations.bisection.differences import differences, with_fields
from dis_derivations.bisection.hybrids import hybrid
from dis_derivations.bisection.laboratory import Laboratory
from dis_derivations.bisection.rendering import render_bisection, render_plan
from dis_derivations.bisection.report import Bisection
from dis_derivations.comparison.causes.json_changes import ABSENT
from dis_derivations.comparison.examination import examine
from dis_derivations.comparison.text_layout import WIDTH
from dis_derivations.realisation.events import Reporter
from dis_derivations.runs.bundle_documents import Bundle, load_bundle
from dis_derivations.runs.bundle_reader import DirectoryBundle, StoredBundle
from dis_derivations.runs.run_directory import lay_out
from dis_derivations.trust.errors import UntrustedError
from dis_store import Store
from dis_store.digest import Digest
from dis_store.errors import DisError, InterruptedBuildError, InvalidInputError
from images import LayoutMaker, tar_of
from run_shelf import make_writable
from tiny_runs import realise, write_manifest

SEED = "inference.request_template.sampling.seed=7"
LIMIT = "inference.request_template.sampling.max_tokens=4"


Spoil = Callable[[Path], None]


def weights_elsewhere(directory: Path) -> None:
    """Give the file of weights another header: the same tensors in other bytes."""
    path = directory / "model" / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length]) | {"__metadata__": {"note": "repacked"}}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def weights_other(directory: Path) -> None:
    """Turn the sign of every weight's last byte, which makes another model of it."""
    path = directory / "model" / "model.safetensors"
    data = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    data[start + 3 :: 4] = bytes(byte ^ 0x80 for byte in data[start + 3 :: 4])
    path.write_bytes(data)


def tokenizer_elsewhere(directory: Path) -> None:
    """Add a file to the tokenizer that changes no token."""
    path = directory / "model" / "special_tokens_map.json"
    path.write_text(json.dumps({"pad_token": "a"}))


def made(store: Store, directory: Path, *spoils: Spoil, overrides: tuple[str, ...] = ()) -> Bundle:
    """Realise the tiny run with some things changed."""
    config = write_manifest(directory)
    for spoil in spoils:
        spoil(directory)
    return load_bundle(StoredBundle(store, realise(store, config, *overrides).outputs["bundle"]))


def laboratory(store: Store, a: Bundle, b: Bundle, **settings: object) -> Laboratory:
    made_of = Laboratory(store, a, b, question(examine(a, b), None))
    for name, value in settings.items():
        setattr(made_of, name, value)
    return made_of


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Digest, Digest]]:
    """Return a store with two runs that have several differences, of which only the weights matter."""
    place = tmp_path_factory.mktemp("prepared")
    with Store.open(place / "store") as store:
        base = made(store, place / "base")
        mixed = made(
            store, place / "mixed", weights_other, tokenizer_elsewhere,
            overrides=(SEED, "runtime.env.OTHER='1'", "metadata.description=another"),
        )  # fmt: skip
    yield place / "store", digest_of(base), digest_of(mixed)
    make_writable(place / "store")


@pytest.fixture
def store(prepared: tuple[Path, Digest, Digest], tmp_path: Path) -> Iterator[Store]:
    """Return a copy of the store, in which no test finds what another one built."""
    shutil.copytree(prepared[0], tmp_path / "store", symlinks=True)
    with Store.open(tmp_path / "store") as opened:
        yield opened
    make_writable(tmp_path / "store")


@pytest.fixture
def base(store: Store, prepared: tuple[Path, Digest, Digest]) -> Bundle:
    return load_bundle(StoredBundle(store, prepared[1]))


@pytest.fixture
def mixed(store: Store, prepared: tuple[Path, Digest, Digest]) -> Bundle:
    return load_bundle(StoredBundle(store, prepared[2]))


def digest_of(bundle: Bundle) -> Digest:
    digest = bundle.reader.digest()
    assert digest is not None
    return digest


def test_one_guilty_difference_among_several_is_found(
    store: Store, base: Bundle, mixed: Bundle
) -> None:
    found = bisect(laboratory(store, base, mixed))

    assert (found.verdict, found.guilty, found.rest) == ("found", ("weights",), "agrees")
    assert [each.name for each in found.differences] == [
        "weights",
        "tokenizer",
        "/inference/request_template/sampling/seed",
    ]
    assert found.reproduces_a is True
    assert "The tokens part because of\n  weights\n" in render_bisection(found)


def test_a_limit_is_found_where_the_weights_are_innocent(
    store: Store, base: Bundle, tmp_path: Path
) -> None:
    other = made(
        store, tmp_path / "b", weights_elsewhere, tokenizer_elsewhere, overrides=(LIMIT, SEED)
    )

    found = bisect(laboratory(store, base, other))

    assert found.guilty == ("/inference/request_template/sampling/max_tokens",)


def test_hybrids_are_found_again(store: Store, base: Bundle, mixed: Bundle) -> None:
    first = bisect(laboratory(store, base, mixed))
    again = bisect(laboratory(store, base, mixed, budget=0))

    assert (first.built, again.built) == (2, 0)
    assert [each.outcome for each in again.experiments] == [
        each.outcome for each in first.experiments
    ]
    assert again.guilty == first.guilty


def test_a_bisection_goes_on_where_its_budget_ended(
    store: Store, base: Bundle, mixed: Bundle
) -> None:
    spent = bisect(laboratory(store, base, mixed, budget=0))
    assert (spent.verdict, spent.found, spent.built) == ("budget spent", False, 0)
    assert len(spent.guilty) == 3
    assert "NOT FOUND: the budget is spent" in render_bisection(spent)

    # One is enough for the answer, and none is left for what the others do without it.
    enough = bisect(laboratory(store, base, mixed, budget=1))
    assert (enough.guilty, enough.built, enough.rest) == (("weights",), 1, None)

    rest = bisect(laboratory(store, base, mixed))
    assert (rest.guilty, rest.built, rest.rest) == (("weights",), 1, "agrees")


def test_an_interrupted_bisection_keeps_what_is_finished(
    store: Store, base: Bundle, mixed: Bundle
) -> None:
    stopped = laboratory(store, base, mixed)

    def interrupt(event: object) -> None:
        if len(stopped.done) >= 3:
            raise InterruptedBuildError("interrupted")

    stopped.reporter = interrupt
    with pytest.raises(InterruptedBuildError):
        bisect(stopped)
    known = [each.taken for each in stopped.done]

    after = bisect(laboratory(store, base, mixed))

    assert [each.cached for each in after.experiments if each.taken in known] == [True] * len(known)


def test_a_plan_builds_nothing(store: Store, base: Bundle, mixed: Bundle) -> None:
    before = store.object_path(digest_of(base)).parent.parent
    count = len(list(before.rglob("*")))

    planned = plan(laboratory(store, base, mixed))

    assert [each.built for each in planned.first] == [True, True, False, False]
    assert planned.without_effect == ("/runtime/env/OTHER",)
    assert (planned.usual, planned.most) == (6, 20)
    assert len(list(before.rglob("*"))) == count
    assert "3 differences can be varied" in render_plan(planned)
    json.dumps(planned.to_json(), allow_nan=False)


def test_the_first_experiment_is_the_first_run_itself(
    store: Store, base: Bundle, mixed: Bundle
) -> None:
    first, second = bisect(laboratory(store, base, mixed)).experiments[:2]

    assert (first.taken, first.cached, first.bundle) == ((), True, base.reader.digest())
    assert second.cached
    assert second.outcome == "parts"


def test_runs_with_the_same_results_have_no_cause(
    store: Store, base: Bundle, tmp_path: Path
) -> None:
    other = made(store, tmp_path / "other", overrides=(SEED,))

    with pytest.raises(InvalidInputError, match="the results of the two runs are the same"):
        question(examine(base, other), None)
    with pytest.raises(InvalidInputError, match="the logits of the two runs are the same"):
        question(examine(base, other), "logits")


def test_run_directories_are_bisected_like_runs_of_the_store(
    store: Store, base: Bundle, mixed: Bundle, tmp_path: Path
) -> None:
    directories = [
        DirectoryBundle(lay_out(store, digest_of(bundle), None, tmp_path / name))
        for name, bundle in (("dir-a", base), ("dir-b", mixed))
    ]

    found = bisect(laboratory(store, *map(load_bundle, directories)))

    assert found.guilty == ("weights",)
    assert found.a.bundle is None


def test_what_is_not_in_the_store_is_held_and_named(
    store: Store, base: Bundle, mixed: Bundle, tmp_path: Path
) -> None:
    """In a store that has only the first run, the second one's weights cannot be had."""
    directory = DirectoryBundle(lay_out(store, digest_of(mixed), None, tmp_path / "directory"))
    with Store.open(tmp_path / "elsewhere") as other:
        realise(other, write_manifest(tmp_path / "again"))
        found = bisect(laboratory(other, base, load_bundle(directory)))
    make_writable(tmp_path / "elsewhere")

    held = {each.name: each.reason for each in found.held}
    assert held["weights"] == "files of it are not in this store: model.safetensors"
    assert found.verdict in ("not reproduced", "nothing to vary")
    assert "the cause is among what is held: weights" in render_bisection(found)


def test_facts_that_variables_set_are_varied_with_them_and_not_held(
    store: Store, tmp_path: Path
) -> None:
    def run(name: str, model: str, caps: dict[str, str]) -> Bundle:
        instructions = {"flags": ["avx2"], "aten": caps.get("ATEN_CPU_CAPABILITY", "native")}
        facts = {"cpu": {"model": model, "threads": 2, "instruction_set": instructions}}
        made_of = Run(
            name=name,
            engine={"engine": "vllm", "numerics": 2, "settings": {}},
            platform_class="cpu",
            facts=facts,
            manifest={
                "runtime": {"threads": {"omp_num_threads": 2}, "env": {}},
                "vllm": {"env": caps},
            },
        )
        return load_bundle(made_of.write(tmp_path / name))

    a, capped = run("a", "one", {}), run("b", "one", {"ATEN_CPU_CAPABILITY": "avx2"})
    assert list(held_by_machine(a, capped, store, given=True)) == []
    elsewhere = run("c", "another", {"ATEN_CPU_CAPABILITY": "avx2"})
    (held,) = held_by_machine(a, elsewhere, store, given=True)
    assert [each.name for each in held.changes] == ["/facts/cpu/model"]


def test_a_hybrid_of_nothing_is_the_run_itself(store: Store, base: Bundle, mixed: Bundle) -> None:
    same = hybrid(base, mixed, ())

    assert same.loaded.manifest_id == base.document.manifest_id
    assert same.lock.lock_id == base.document.lock_id


def test_a_hybrid_of_everything_has_the_locked_files_of_the_other_run(
    store: Store, base: Bundle, mixed: Bundle
) -> None:
    other = hybrid(base, mixed, differences(base, mixed))

    assert other.lock.lock_id == mixed.document.lock_id
    template = other.loaded.document["inference"]["request_template"]
    assert template == mixed.manifest["inference"]["request_template"]
    assert other.loaded.document["metadata"] == base.manifest["metadata"]


def test_a_hybrid_that_is_no_manifest_is_unresolved(
    store: Store, base: Bundle, tmp_path: Path
) -> None:
    sampled = made(
        store, tmp_path / "sampled",
        overrides=("inference.request_template.sampling.temperature=5.0", SEED),
    )  # fmt: skip

    found = bisect(laboratory(store, base, sampled))

    outcomes = {each.taken: each.outcome for each in found.experiments}
    alone = ("/inference/request_template/sampling/temperature",)
    assert outcomes[alone] == "unresolved"
    assert len(found.guilty) == 2
    assert "together: with one of them left out" in render_bisection(found)


def test_a_run_that_cannot_be_built_again_is_refused(
    store: Store, base: Bundle, tmp_path: Path
) -> None:
    config = write_manifest(tmp_path / "unverified")
    realise(store, config)
    weights_other(tmp_path / "unverified")
    realised = realise(store, config, verify_digests=False)
    other = load_bundle(StoredBundle(store, realised.outputs["bundle"]))

    with pytest.raises(DisError, match="cannot be built again"):
        bisect(laboratory(store, base, other))


def test_no_hybrid_is_built_in_an_image_that_nobody_vouches_for(
    store: Store, base: Bundle, tmp_path: Path
) -> None:
    layout = LayoutMaker(tmp_path / "layout")
    image = layout.image([tar_of({"a": b"hello"})])
    layout.finish(image)
    name = f"localhost/engine@{image['digest']}"
    execution = "runtime.execution.vllm_image"
    imaged = made(
        store, tmp_path / "imaged", weights_other,
        overrides=(f"{execution}={name}", f"{execution}_path={layout.directory}", SEED),
    )  # fmt: skip
    asked: list[tuple[str | None, str]] = []

    def check(named: str | None, pinned: Mapping[str, str], _: Reporter) -> None:
        asked.append((named, pinned["manifest"]))
        raise UntrustedError("nobody vouches for it")

    found = bisect(laboratory(store, base, imaged, image_check=check))

    assert set(asked) == {(name, image["digest"])}
    tried = [each for each in found.experiments if "image" in each.taken]
    assert all(each.cached for each in tried)
    assert any("nobody vouches" in each.detail for each in tried)


def test_lines_are_no_wider_than_the_width(store: Store, base: Bundle, mixed: Bundle) -> None:
    found: Bisection = bisect(laboratory(store, base, mixed))

    assert max(map(len, render_bisection(found).splitlines())) <= WIDTH
    json.dumps(found.to_json(), allow_nan=False)


def test_fields_are_set_and_removed_by_their_pointers() -> None:
    from dis_derivations.bisection.differences import FieldChange

    document = {"a": {"b": 1, "c": 2}, "l": [{"x": 1}, {"x": 2}]}
    fields = (
        FieldChange("/a/b", 1, ABSENT),
        FieldChange("/l/1/x", 2, 3),
        FieldChange("/new/deep", ABSENT, 4),
    )

    assert with_fields(document, fields) == {
        "a": {"c": 2},
        "l": [{"x": 1}, {"x": 3}],
        "new": {"deep": 4},
    }
    assert document == {"a": {"b": 1, "c": 2}, "l": [{"x": 1}, {"x": 2}]}


def test_a_run_has_no_differences_from_itself(base: Bundle) -> None:
    assert differences(base, base) == ()


def test_a_run_whose_manifest_is_no_manifest_is_refused(store: Store, tmp_path: Path) -> None:
    answers = (Answer("first", (9,)), Answer("second", (8, 9)))
    one, two = Run().write(tmp_path / "one"), Run(answers=answers).write(tmp_path / "two")

    with pytest.raises(InvalidInputError, match="is not a valid manifest"):
        bisect(laboratory(store, load_bundle(one), load_bundle(two)))
