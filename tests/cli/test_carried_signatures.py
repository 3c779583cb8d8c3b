"""Signatures travel with `dis store export` and `import`, and count for what the settings of the other store say."""

import tarfile
from pathlib import Path

import pytest

from command_line import Dis, Realised
from dis_store import Digest, Store, canonical_json
from dis_store.archives.closure_archive import member_header
from signers import signer


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's file of settings, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "personal"))
    monkeypatch.delenv("DIS_TRUST", raising=False)
    (tmp_path / "personal" / "dis").mkdir(parents=True)
    return tmp_path / "personal" / "dis" / "config.toml"


@pytest.fixture
def archive(dis: Dis, own_store: Realised, config: Path, tmp_path: Path) -> Path:
    """An archive of a run that `laptop` signed."""
    assert dis("key", "generate", "laptop").code == 0
    assert dis("sign", "first").code == 0
    found = tmp_path / "first.tar"
    document = dis("store", "export", "first", "--output", found, "--json").document
    assert document["signatures"] > 0
    return found


def test_a_signed_run_is_verified_where_it_arrives(
    dis: Dis, own_store: Realised, config: Path, archive: Path, tmp_path: Path
) -> None:
    other = ("--store", tmp_path / "other")
    came = dis(*other, "store", "import", archive, "--json").document
    (root,) = came["roots"]
    assert came["signatures"] == dis("store", "import", archive, "--json").document["signatures"]

    stranger = dis(*other, "verify-signatures", root)
    assert stranger.code == 4
    assert "NOT VOUCHED FOR" in stranger.out

    config.write_text(dis("key", "show", "laptop", "--setting").out, "utf-8")
    found = dis(*other, "verify-signatures", root, "--json")
    assert found.code == 0, found.err
    rows = found.document["builds"]
    assert {row["builder"] for row in rows} == {"run", "generation"}
    assert rows[0]["builder"] == "run"
    assert all(
        (row["signers"], row["origin"], row["vouched"]) == (["laptop"], "claimed", True)
        for row in rows
    )
    assert dis(*other, "verify-signatures", root, "--needed", "2").code == 4
    assert "signed by laptop" in dis(*other, "verify-signatures", root).out


def test_a_key_that_is_revoked_counts_for_nothing(
    dis: Dis, config: Path, archive: Path, tmp_path: Path
) -> None:
    setting = dis("key", "show", "laptop", "--setting").out
    fingerprint = dis("key", "list", "--json").document["keys"][0]["fingerprint"]
    config.write_text(f'revoked-keys = ["{fingerprint}"]\n{setting}', "utf-8")
    other = ("--store", tmp_path / "other")
    (root,) = dis(*other, "store", "import", archive, "--json").document["roots"]
    refused = dis(*other, "verify-signatures", root)
    assert refused.code == 4
    assert "revoked" in refused.out


def test_an_import_makes_no_build_of_what_is_signed(
    dis: Dis, own_store: Realised, config: Path, archive: Path, tmp_path: Path
) -> None:
    config.write_text(dis("key", "show", "laptop", "--setting").out, "utf-8")
    (root,) = dis("--store", tmp_path / "other", "store", "import", archive, "--json").document[
        "roots"
    ]
    with Store.open(tmp_path / "other") as store:
        assert store.builds_of(Digest(root)) == []
    with Store.open(own_store.store) as store:
        key = store.root("first")
        assert key is not None
        assert key.key is not None
        assert store.chosen(key.key) is not None
        with Store.open(tmp_path / "other") as other:
            assert other.chosen(key.key) is None


def test_what_nobody_signed_is_refused_as_before(
    dis: Dis, own_store: Realised, config: Path, tmp_path: Path
) -> None:
    archive, other = tmp_path / "first.tar", ("--store", tmp_path / "other")
    dis("store", "export", "first", "--output", archive)
    (root,) = dis(*other, "store", "import", archive, "--json").document["roots"]
    refused = dis(*other, "verify-signatures", root)
    refused.check_one_block()
    assert refused.code == 2
    assert "no build" in refused.err


def test_a_claim_of_a_stranger_beside_that_of_a_trusted_key_does_no_harm(
    dis: Dis, config: Path, archive: Path, tmp_path: Path
) -> None:
    from dataclasses import replace
    from itertools import count

    from dis_derivations.trust.claim import Claim
    from dis_derivations.trust.policy import MAX_ENVELOPES
    from dis_derivations.trust.signed_document import SignedDocument
    from dis_derivations.trust.statement import PAYLOAD_TYPE
    from dis_store.errors import DisError

    config.write_text(dis("key", "show", "laptop", "--setting").out, "utf-8")
    (root,) = dis("--store", tmp_path / "other", "store", "import", archive, "--json").document[
        "roots"
    ]
    with Store.open(tmp_path / "other") as store:
        for digest, data in store.signatures(Digest(root)).items():
            try:
                claim = Claim.decode(SignedDocument.decode(data).envelope.statement_payload())
            except DisError:
                continue
            # More of them than are ever read, and all before it.
            numbers, before = count(), 0
            while before < MAX_ENVELOPES:
                made_up = replace(claim, key=Digest.of(b"another %d" % next(numbers)))
                said = signer("bob").sign(made_up.encode(), PAYLOAD_TYPE)
                if Digest.of(said) < digest:
                    store.add_signature(Digest(root), said)
                    before += 1
    found = dis("--store", tmp_path / "other", "verify-signatures", root, "--json")
    assert found.code == 0
    assert all(row["signers"] == ["laptop"] for row in found.document["builds"])


def test_a_claim_about_another_object_vouches_for_nothing(
    dis: Dis, own_store: Realised, config: Path, archive: Path, tmp_path: Path
) -> None:
    """The signatures of the run, filed under another object."""
    config.write_text(dis("key", "show", "laptop", "--setting").out, "utf-8")
    with Store.open(tmp_path / "other") as store, store.new_tree() as tree:
        tree.write_bytes("file", b"another object")
        digest = tree.register()
        with Store.open(own_store.store) as signed:
            root = signed.root("first")
            assert root is not None
            assert root.key is not None
            for data in signed.signatures(root.key).values():
                store.add_signature(digest, data)
        refused = dis("--store", tmp_path / "other", "verify-signatures", str(digest))
    refused.check_one_block()
    assert refused.code == 2


def test_what_is_no_signed_document_is_refused_in_one_block(dis: Dis, tmp_path: Path) -> None:
    empty = b'{"entries":[],"format":1,"type":"tree"}'
    data = b'{"signed":"by nobody"}'
    header = canonical_json.encode(
        {
            "type": "closures",
            "format": 2,
            "roots": [Digest.of(empty)],
            "objects": 1,
            "signatures": {Digest.of(empty): [Digest.of(data)]},
        }
    )
    members = {
        "archive.json": header,
        f"manifests/{Digest.of(empty)}.json": empty,
        f"signatures/{Digest.of(data)}.json": data,
    }
    packed = b"".join(
        member_header(name, len(each)) + each + bytes(-len(each) % 512)
        for name, each in members.items()
    )
    path = tmp_path / "hostile.tar"
    path.write_bytes(packed + bytes(1024))
    with tarfile.open(path) as readable:
        assert readable.getnames() == list(members)
    for dry in ((), ("--dry-run",)):
        refused = dis("--store", tmp_path / "other", "store", "import", path, *dry)
        refused.check_one_block()
        assert refused.code == 2
    with Store.open(tmp_path / "other") as store:
        assert store.objects() == []
