"""Closures in a real registry: pushed, listed, copied and pulled, by dis and by other programs."""

import json
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dis_derivations.distribution import layout
from dis_derivations.distribution.kept import Kept, kept_by
from dis_derivations.distribution.pulling import (
    AcceptClaim,
    Pulled,
    accept_all,
    plan_pull,
    pull,
    refuse_unsigned,
    root_of,
)
from dis_derivations.distribution.pushing import Push, Pushed, plan_push
from dis_derivations.distribution.remote_closure import fetch_closure
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.errors import RegistryRefusedError
from dis_derivations.registry.reference import (
    RegistryReference,
    RegistryReferenceError,
    parse_reference,
)
from dis_derivations.trust.policy import TrustedKey, TrustPolicy, accept_claim
from dis_derivations.trust.private_key import PrivateKey
from dis_derivations.trust.signing import builds_under, payloads_of
from dis_derivations.trust.statement import PAYLOAD_TYPE
from dis_store import Root, Store
from dis_store.digest import Digest, Sha256
from dis_store.errors import DisError, InterruptedBuildError
from part_models import add_weights, kept_weights
from real_registry import RealRegistry, need, running_registry
from small_closures import files_of, kept_closure
from tiny_runs import Built, realise


def place_in(registry: RealRegistry, name: str) -> RegistryReference:
    return parse_reference(registry.reference(name))


def push(store: Store, client: RegistryClient, kept: Kept, place: RegistryReference) -> Pushed:
    return Push(client, plan_push(store, kept, place)).run()


def fetch(
    store: Store,
    client: RegistryClient,
    place: RegistryReference,
    accept: AcceptClaim = refuse_unsigned,
    only: str | None = None,
) -> Pulled:
    return pull(store, client, plan_pull(store, client, place, only=only), accept=accept)


def test_what_is_pushed_is_pulled_byte_for_byte(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store
) -> None:
    kept = kept_closure(here)
    place = place_in(registry, "plain:one")

    pushed = push(here, client, kept, place)
    pulled = fetch(there, client, pushed.reference)

    assert pulled.root == kept.root
    assert set(pulled.new) == {each.digest for each in kept.objects}
    assert files_of(there, pulled.root) == files_of(here, kept.root)
    assert there.verify().problems == ()
    assert (there.object_path(kept.root) / "bin/run").stat().st_mode & 0o111
    assert not list((there.path / "downloads").glob("*/part"))
    assert fetch(there, client, place).new == ()


def test_a_push_that_changes_nothing_sends_no_blob_and_no_manifest(
    registry: RealRegistry, client: RegistryClient, here: Store
) -> None:
    kept = kept_closure(here)
    place = place_in(registry, "again:one")
    first = push(here, client, kept, place)
    before = len(registry.requests())

    second = push(here, client, kept, place)

    assert first.sent > 0
    assert second == replace(first, sent=0)
    assert {line.split()[0] for line in registry.requests()[before:]} <= {"HEAD", "GET"}
    look = Push(client, plan_push(here, kept, place)).look()
    assert look.sent == 0


def test_a_dry_run_says_what_would_be_sent_and_changes_nothing(
    registry: RealRegistry, client: RegistryClient, here: Store
) -> None:
    place = place_in(registry, "dry:one")

    look = Push(client, plan_push(here, kept_closure(here), place)).look()

    assert look.sent == look.size > 3 << 20
    assert client.find(place) is None


def test_what_the_store_has_already_is_not_fetched(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store
) -> None:
    kept = kept_closure(here)
    place = place_in(registry, "known:one")
    push(here, client, kept, place)
    with there.new_tree() as tree:
        data = files_of(here, kept.root)["model/model.bin"]
        tree.write_bytes("under another name", data)
        tree.register()
    blob = there.sha256_of(Digest.of(data))
    before = len(registry.requests())

    fetch(there, client, place)

    assert not any(str(blob) in line for line in registry.requests()[before:])
    assert files_of(there, kept.root) == files_of(here, kept.root)


def test_one_part_is_pulled_with_what_it_refers_to(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store
) -> None:
    kept = kept_closure(here)
    place = place_in(registry, "parts:one")
    push(here, client, kept, place)
    inner = next(each for each in kept.objects if each.digest != kept.root)

    pulled = fetch(there, client, place, only=inner.name)

    assert pulled.root == inner.digest
    assert there.objects() == [inner.digest]


def test_an_object_of_many_files_travels_whole(
    registry: RealRegistry,
    client: RegistryClient,
    here: Store,
    there: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(layout, "MOST_FILES", 20)
    with here.new_tree() as tree:
        for number in range(layout.MOST_FILES + 5):
            tree.write_bytes(
                f"lib/{number}.py", b"x = %d\n" % (number % 18), executable=number == 7
            )
        digest = tree.register()
    kept = kept_by(here, Root(digest), outputs_only=False)
    place = place_in(registry, "many:one")

    pushed = push(here, client, kept, place)
    fetch(there, client, place)

    assert files_of(there, digest) == files_of(here, digest)
    assert (there.object_path(digest) / "lib/7.py").stat().st_mode & 0o111
    assert push(here, client, kept, place) == replace(pushed, sent=0)


def test_a_pull_that_was_interrupted_goes_on(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store
) -> None:
    kept = kept_closure(here, seed=5)
    place = place_in(registry, "stopped:one")
    push(here, client, kept, place)
    plan = plan_pull(there, client, place)
    came = 0

    def stop(amount: int, _total: int) -> None:
        nonlocal came
        came += amount
        if came > 2 << 20:
            raise InterruptedBuildError("stopped")

    with pytest.raises(InterruptedBuildError):
        pull(there, client, plan, progress=stop)
    assert there.objects() == []
    assert there.unfinished_bytes() > 0

    fetch(there, client, place)

    assert files_of(there, kept.root) == files_of(here, kept.root)
    assert there.unfinished_bytes() == 0


def test_small_files_that_came_before_a_pull_broke_off_do_not_come_again(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store
) -> None:
    sizes = [400_000, 300_000, 200_000, 100_000, 20_000]
    files = {str(size): size.to_bytes(4, "big") * (size // 4) for size in sizes}
    kept = kept_weights(add_weights(here, files))
    place = place_in(registry, "small:one")
    push(here, client, kept, place)
    last = Sha256.of(files["20000"])
    path = registry.blob_path(last)
    path.rename(path.with_name("away"))
    with pytest.raises(DisError):
        fetch(there, client, place)
    path.with_name("away").rename(path)
    before = len(registry.requests())

    fetch(there, client, place)

    asked = [
        line
        for line in registry.requests()[before:]
        if line.startswith("GET") and "/blobs/" in line
    ]
    assert any(str(last) in line for line in asked)
    for size in sizes[:-1]:
        assert not any(str(Sha256.of(files[str(size)])) in line for line in asked), size
    assert files_of(there, kept.root) == files
    assert list((there.path / "downloads").iterdir()) == []


@pytest.mark.parametrize("change", [b"x" * 200_000, b"", b"x" * 7])
def test_a_small_file_that_was_damaged_while_it_waited_comes_again(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store, change: bytes
) -> None:
    files = {"one": b"1" * 200_000, "two": b"2" * 20_000}
    kept = kept_weights(add_weights(here, files))
    place = place_in(registry, f"damaged-{len(change)}:one")
    push(here, client, kept, place)
    path = registry.blob_path(Sha256.of(files["two"]))
    path.rename(path.with_name("away"))
    with pytest.raises(DisError):
        fetch(there, client, place)
    path.with_name("away").rename(path)
    (part,) = [
        each
        for each in (there.path / "downloads").glob("*/part")
        if each.read_bytes() == files["one"]
    ]
    part.write_bytes(change)

    fetch(there, client, place)

    assert files_of(there, kept.root) == files
    assert there.verify().problems == ()


def test_a_tag_that_leaves_no_room_for_the_parts_is_refused(
    registry: RealRegistry, client: RegistryClient, here: Store
) -> None:
    place = place_in(registry, f"long:{'x' * 120}")

    with pytest.raises(RegistryReferenceError):
        plan_push(here, kept_closure(here), place)


def test_what_is_no_closure_is_refused_and_what_is_not_there_is_said_to_be_missing(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store
) -> None:
    place = place_in(registry, "kinds:one")
    push(here, client, kept_closure(here), place)

    with pytest.raises(DisError) as caught:
        fetch(there, client, place.with_tag("one.records"))
    assert "no closure" in caught.value.what
    with pytest.raises(RegistryRefusedError) as missing:
        fetch(there, client, place.with_tag("two"))
    assert missing.value.is_missing


def test_after_a_pull_that_is_believed_nothing_is_left_to_be_built(
    registry: RealRegistry,
    client: RegistryClient,
    there: Store,
    built: Built,
    tmp_path: Path,
) -> None:
    place = place_in(registry, "run:one")
    push(built.store, client, kept_by(built.store, built.root, outputs_only=False), place)

    plan = plan_pull(there, client, place)
    pulled = pull(there, client, plan, accept=accept_all)

    assert pulled.refused == ()
    root = root_of(plan, there, "x")
    assert (root.object, root.key, root.derivation) == (
        built.root.object,
        built.root.key,
        built.root.derivation,
    )
    realised = realise(there, built.config)
    assert realised.cached
    assert realised.main_output == built.root.object
    again = realise(there, built.config, rebuilds=1)
    assert again.reproduced


def test_builds_that_nobody_signed_are_left_out_but_for_those_that_prove_themselves(
    registry: RealRegistry, client: RegistryClient, there: Store, built: Built
) -> None:
    place = place_in(registry, "unsigned:one")
    push(built.store, client, kept_by(built.store, built.root, outputs_only=False), place)

    pulled = fetch(there, client, place)

    assert pulled.builds == 4
    assert len(pulled.refused) == 4
    assert built.root.key is not None
    assert there.realisations(built.root.key) == []
    assert there.is_valid(built.root.object)


def signed_by(key: PrivateKey, built: Built, *more: bytes) -> Kept:
    """Return what a run keeps, with signatures of its builds that the store itself does not have."""
    assert built.root.key is not None
    envelopes = {
        build.record.key: [key.sign(each, PAYLOAD_TYPE) for each in payloads_of(built.store, build)]
        for build in builds_under(built.store, built.root.key)
        if not build.obstacle
    }
    kept = kept_by(built.store, built.root, outputs_only=False)
    builds = tuple(
        replace(each, envelopes=(*envelopes.get(each.realisation.key, ()), *more))
        for each in kept.records.builds
    )
    return replace(kept, records=replace(kept.records, builds=builds))


def test_builds_that_a_trusted_key_signed_are_believed(
    registry: RealRegistry, client: RegistryClient, there: Store, built: Built
) -> None:
    key, stranger = PrivateKey.generate(), PrivateKey.generate()
    kept = signed_by(key, built)
    place = place_in(registry, "signed:one")
    push(built.store, client, kept, place)

    def trusting(trusted: PrivateKey) -> AcceptClaim:
        keys = (TrustedKey("builder", trusted.public),)
        return lambda claim, envelopes: accept_claim(
            claim, envelopes, TrustPolicy(), keys, now=datetime.now(UTC)
        )

    assert len(fetch(there, client, place, trusting(stranger)).refused) == 4
    assert fetch(there, client, place, trusting(key)).refused == ()
    assert built.root.key is not None
    (run,) = (each for each in kept.records.builds if each.realisation.key == built.root.key)
    assert set(there.signatures(built.root.key).values()) == set(run.envelopes)
    tags = client.tags(place)
    assert any(key.public.fingerprint.hex[:32] in tag for tag in tags)


def test_of_what_comes_as_signatures_only_signed_documents_are_kept(
    registry: RealRegistry, client: RegistryClient, there: Store, built: Built
) -> None:
    rubbish = (b"{}", b"[]", b'{"payload":"x"}', b'"text"', b"1")
    kept = signed_by(PrivateKey.generate(), built, *rubbish)
    place = place_in(registry, "rubbish:one")
    push(built.store, client, kept, place)

    assert fetch(there, client, place, accept_all).refused == ()

    for build in kept.records.builds:
        found = set(there.signatures(build.realisation.key).values())
        assert found == set(build.envelopes) - set(rubbish)


def skopeo(*arguments: str) -> str:
    need("skopeo")
    done = subprocess.run(["skopeo", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_skopeo_copies_a_closure_and_its_digest_stays(
    registry: RealRegistry, client: RegistryClient, here: Store, there: Store
) -> None:
    kept = kept_closure(here)
    pushed = push(here, client, kept, place_in(registry, "copied/from:one"))

    skopeo(
        "copy",
        "--all",
        "--preserve-digests",
        "--src-tls-verify=false",
        "--dest-tls-verify=false",
        f"docker://{registry.host}/copied/from:one",
        f"docker://{registry.host}/copied/to:two",
    )

    copy = place_in(registry, "copied/to:two")
    assert client.resolve(copy) == pushed.reference.digest
    fetch(there, client, copy)
    assert files_of(there, kept.root) == files_of(here, kept.root)


def test_skopeo_lists_and_inspects_what_was_pushed(
    registry: RealRegistry, client: RegistryClient, here: Store
) -> None:
    kept = kept_closure(here)
    place = place_in(registry, "inspected:one")
    push(here, client, kept, place)

    tags = json.loads(
        skopeo("list-tags", "--tls-verify=false", f"docker://{registry.host}/inspected")
    )["Tags"]
    raw = skopeo(
        "inspect", "--raw", "--tls-verify=false", f"docker://{registry.host}/inspected:one"
    )

    assert sorted(tags) == client.tags(place)
    assert layout.closure_tags(tags) == ["one"]
    assert json.loads(raw)["annotations"][layout.ROOT_NAME] == kept.root
    assert raw.encode() == client.manifest(place).data


def test_oras_pulls_every_part_and_gets_its_files(
    registry: RealRegistry, client: RegistryClient, built: Built, tmp_path: Path
) -> None:
    import oras.client  # type: ignore[import-untyped]

    place = place_in(registry, "oras:one")
    kept = kept_by(built.store, built.root, outputs_only=False)
    push(built.store, client, kept, place)
    puller = oras.client.OrasClient(insecure=True)

    for part in kept.objects:
        top = tmp_path / part.name
        puller.pull(target=f"{registry.host}/oras:one.{part.name}", outdir=str(top))
        for entry in built.store.tree(part.digest).files:
            assert Digest.of((top / entry.path).read_bytes()) == entry.blake3
    assert (tmp_path / "weights/model.safetensors").is_file()
    puller.pull(target=f"{registry.host}/oras:one.records", outdir=str(tmp_path / "records"))
    (records,) = (tmp_path / "records").iterdir()
    assert records.read_bytes() == kept.records.encode()


def test_a_client_of_modelpack_pulls_the_weights_bit_for_bit(
    registry: RealRegistry, client: RegistryClient, built: Built, tmp_path: Path
) -> None:
    from modelpack_client import ModelPackClient  # type: ignore[import-untyped]

    place = place_in(registry, "modelpack:one")
    kept = kept_by(built.store, built.root, outputs_only=False)
    push(built.store, client, kept, place)
    (weights,) = [each for each in kept.objects if each.kind == "weights"]
    assert weights.name == "weights"

    # It compares the configuration with the schema of the specification.
    pulled = ModelPackClient(insecure=True).pull(
        f"{registry.host}/modelpack:one.weights", tmp_path / "pulled"
    )

    entries = built.store.tree(weights.digest).files
    found = {each.relative_to(tmp_path / "pulled").as_posix(): each for each in pulled.files}
    assert sorted(found) == [entry.path for entry in entries]
    for entry in entries:
        own = built.store.object_path(weights.digest) / entry.path
        assert found[entry.path].read_bytes() == own.read_bytes()
    assert pulled.manifest["annotations"][layout.OBJECT_NAME] == weights.digest


def test_a_collection_of_the_registry_that_deletes_what_has_no_tag_leaves_a_closure_whole(
    client: RegistryClient, there: Store, built: Built, tmp_path: Path
) -> None:
    with running_registry(tmp_path / "registry") as registry:
        place = place_in(registry, "collected:one")
        push(built.store, client, kept_by(built.store, built.root, outputs_only=False), place)

        registry.collect_garbage("--delete-untagged")

        assert fetch(there, client, place, accept_all).refused == ()
        assert there.verify().problems == ()


def test_the_parts_of_a_closure_are_listed(
    registry: RealRegistry, client: RegistryClient, built: Built
) -> None:
    place = place_in(registry, "listed:one")
    kept = kept_by(built.store, built.root, outputs_only=False)
    push(built.store, client, kept, place)

    closure = fetch_closure(client, place)

    assert set(closure.objects) == {each.digest for each in kept.objects}
    assert closure.root == built.root.object
    assert closure.named("weights").kind == "weights"
    with pytest.raises(DisError):
        closure.named("nothing")
