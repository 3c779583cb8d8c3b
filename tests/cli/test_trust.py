"""`dis key`, `dis sign`, `dis verify-signatures`, `dis challenge`, and the settings of trust."""

import base64
import json
import os
import stat
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from command_line import SHORTER, Dis, Realised
from dis_derivations.version import VERSION
from signers import signer

LIMITS = ("--set", "inference.n_prompts=2", "--set", SHORTER)
NEEDED = ("requests", "closure", "generation", "run")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's file of settings, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "personal"))
    monkeypatch.delenv("DIS_TRUST", raising=False)
    (tmp_path / "personal" / "dis").mkdir(parents=True)
    return tmp_path / "personal" / "dis" / "config.toml"


def keys(config: Path) -> Path:
    return config.parent / "keys"


def trust(config: Path, text: str) -> None:
    config.write_text(text, encoding="utf-8")


# -- keys ------------------------------------------------------------------------------------------


def test_a_key_is_made_listed_shown_and_removed(dis: Dis, config: Path) -> None:
    made = dis("key", "generate", "laptop")
    assert made.code == 0
    fingerprint = made.out.strip()
    assert fingerprint.startswith("sha256:")
    listed = dis("key", "list")
    assert listed.out.split() == ["laptop", fingerprint, "signs"]
    shown = dis("key", "show", "laptop")
    assert shown.out == (keys(config) / "laptop.pub").read_text()
    assert dis("key", "remove", "laptop", "--yes").code == 0
    assert dis("key", "list").out == ""


def test_the_lines_that_are_printed_for_the_settings_trust_the_key(dis: Dis, config: Path) -> None:
    for name in ("laptop", "a.b@c"):
        dis("key", "generate", name)
        trust(config, dis("key", "show", name, "--setting").out)
        rows = dis("key", "list", "--json").document["keys"]
        assert next(row["trusted"] for row in rows if row["name"] == name) == name


def test_a_key_is_private_and_outside_the_store(dis: Dis, config: Path, tmp_path: Path) -> None:
    dis("key", "generate", "laptop")
    private = keys(config) / "laptop.key"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert not private.is_relative_to(tmp_path / "empty-store")


def test_keys_in_the_store_are_refused(
    dis: Dis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "store"))
    outcome = dis("--store", str(tmp_path / "store"), "key", "generate", "laptop")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "in the store" in outcome.err
    assert not (tmp_path / "store" / "dis" / "keys").exists()


def test_a_key_that_is_there_is_not_made_again(dis: Dis, config: Path) -> None:
    dis("key", "generate", "laptop")
    before = (keys(config) / "laptop.key").read_bytes()
    outcome = dis("key", "generate", "laptop")
    outcome.check_one_block()
    assert outcome.code == 2
    assert (keys(config) / "laptop.key").read_bytes() == before


def test_a_private_key_is_not_deleted_without_a_word(dis: Dis, config: Path) -> None:
    dis("key", "generate", "laptop")
    outcome = dis("key", "remove", "laptop")
    outcome.check_one_block()
    assert outcome.code == 2
    assert (keys(config) / "laptop.key").exists()
    assert dis("key", "remove", "laptop", "--yes").code == 0


def test_a_passphrase_is_taken_from_a_file_and_never_from_the_command_line(
    dis: Dis, config: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a canary of a passphrase\n")
    made = dis("key", "generate", "laptop", "--passphrase-file", str(secret))
    assert made.code == 0
    assert b"ENCRYPTED" in (keys(config) / "laptop.key").read_bytes()
    assert "canary" not in made.out + made.err
    wrong = dis("key", "generate", "other", "--passphrase")
    wrong.check_one_block()
    assert wrong.code == 2
    assert "--passphrase-file" in wrong.err
    assert not (keys(config) / "other.key").exists()


def test_keys_of_others_and_of_other_machines_are_imported(
    dis: Dis, config: Path, tmp_path: Path
) -> None:
    public, private = tmp_path / "public.pem", tmp_path / "private.pem"
    public.write_bytes(signer("alice").public.to_pem())
    private.write_bytes(signer("bob").to_pem(None))
    assert (
        dis("key", "import", "alice", str(public)).out.strip() == signer("alice").public.fingerprint
    )
    assert dis("key", "import", "bob", str(private)).code == 0
    rows = {row["name"]: row["kind"] for row in dis("key", "list", "--json").document["keys"]}
    assert rows == {"alice": "public", "bob": "signs"}
    assert stat.S_IMODE((keys(config) / "bob.key").stat().st_mode) == 0o600
    broken = tmp_path / "broken.pem"
    broken.write_bytes(public.read_bytes()[:-9])
    outcome = dis("key", "import", "broken", str(broken))
    outcome.check_one_block()
    assert outcome.code == 2


# -- signing ---------------------------------------------------------------------------------------


def test_a_run_is_signed_and_then_vouched_for(dis: Dis, own_store: Realised, config: Path) -> None:
    dis("key", "generate", "laptop")
    before = dis("verify-signatures", "first")
    assert before.code == 4
    assert "NOT VOUCHED FOR" in before.out
    signed = dis("sign", "first", "--json").document
    assert sorted(each["builder"] for each in signed["signed"]) == sorted(NEEDED)
    assert {each["obstacle"] for each in signed["left_out"]} == {"fixed output"}
    assert dis("verify-signatures", "first").code == 4
    trust(config, dis("key", "show", "laptop", "--setting").out)
    after = dis("verify-signatures", "first", "--json")
    assert after.code == 0
    for each in after.document["builds"]:
        assert each["vouched"]
        assert each["signers"] == (["laptop"] if each["needs_signature"] else [])
    assert dis("verify-signatures", "first", "--needed", "2").code == 4
    assert dis("verify-signatures", "second").code == 4
    assert dis("store", "verify", "--all").code == 0


def test_a_revoked_key_vouches_for_nothing(dis: Dis, own_store: Realised, config: Path) -> None:
    fingerprint = dis("key", "generate", "laptop").out.strip()
    dis("sign", "first")
    lines = dis("key", "show", "laptop", "--setting").out
    trust(config, f'revoked-keys = ["{fingerprint}"]\n{lines}')
    outcome = dis("verify-signatures", "first")
    assert outcome.code == 4
    assert "it is revoked" in outcome.out
    assert "revoked" in dis("key", "list").out


def test_what_any_file_revokes_is_revoked(
    dis: Dis, own_store: Realised, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprint = dis("key", "generate", "laptop").out.strip()
    dis("sign", "first")
    trust(config, "revoked-keys = []\n" + dis("key", "show", "laptop", "--setting").out)
    assert dis("verify-signatures", "first").code == 0
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "system"))
    (tmp_path / "system" / "dis").mkdir(parents=True)
    (tmp_path / "system" / "dis" / "config.toml").write_text(f'revoked-keys = ["{fingerprint}"]\n')
    assert dis("verify-signatures", "first").code == 4


def test_nothing_is_signed_without_a_key(dis: Dis, own_store: Realised, config: Path) -> None:
    outcome = dis("sign", "first")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "dis key generate" in outcome.err
    assert not (own_store.store / "signatures").exists()


def test_the_wrong_passphrase_signs_nothing(
    dis: Dis, own_store: Realised, config: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the canary\n")
    dis("key", "generate", "laptop", "--passphrase-file", str(secret))
    for arguments in ([], ["--passphrase-file", str(config.parent / "wrong")]):
        (config.parent / "wrong").write_text("another\n")
        outcome = dis("sign", "first", *arguments)
        outcome.check_one_block()
        assert outcome.code == 2
        assert "canary" not in outcome.err
    assert not (own_store.store / "signatures").exists()
    assert dis("sign", "first", "--passphrase-file", str(secret)).code == 0


def test_no_secret_of_a_key_gets_into_the_store(
    dis: Dis, own_store: Realised, config: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the canary of the passphrase\n")
    dis("key", "generate", "laptop")
    dis("key", "generate", "locked", "--passphrase-file", str(secret))
    dis("sign", "first", "--key", "laptop")
    dis("sign", "first", "--key", "locked", "--passphrase-file", str(secret))
    private = (keys(config) / "laptop.key").read_bytes().splitlines()[1]
    for directory, _, names in os.walk(own_store.store):
        for name in names:
            path = Path(directory, name)
            if not path.is_symlink():
                data = path.read_bytes()
                assert private not in data
                assert b"the canary" not in data


def test_signatures_go_with_what_they_are_about(
    dis: Dis, own_store: Realised, config: Path
) -> None:
    dis("key", "generate", "laptop")
    dis("sign", "first")
    signatures = list((own_store.store / "signatures").rglob("*.json"))
    assert len(signatures) == 8
    dis("store", "reindex")
    assert len(list((own_store.store / "signatures").rglob("*.json"))) == 8
    for name in json.loads(dis("root", "list", "--json").out):
        dis("root", "remove", name["name"], "--yes")
    assert dis("gc").code == 0
    assert not list((own_store.store / "signatures").rglob("*.json"))


def test_a_file_that_is_there_is_kept(
    dis: Dis, own_store: Realised, config: Path, tmp_path: Path
) -> None:
    dis("key", "generate", "laptop")
    output = tmp_path / "first.claims"
    output.write_text("mine")
    outcome = dis("sign", "first", "--output", str(output))
    outcome.check_one_block()
    assert outcome.code == 2
    assert output.read_text() == "mine"
    assert dis("sign", "first", "--output", str(output), "--force").code == 0
    documents = [json.loads(line)["dsseEnvelope"] for line in output.read_bytes().splitlines()]
    assert len(documents) == 8
    statements = [json.loads(base64.b64decode(each["payload"])) for each in documents]
    versions = [
        each["predicate"]["runDetails"]["builder"]["version"]["dis"]
        for each in statements
        if "runDetails" in each["predicate"]
    ]
    assert versions == [VERSION] * 4


def test_what_no_build_made_cannot_be_signed(
    dis: Dis, own_store: Realised, config: Path, tmp_path: Path
) -> None:
    dis("key", "generate", "laptop")
    (tmp_path / "file").write_text("text")
    digest = dis("store", "add", str(tmp_path / "file")).out.split()[0]
    outcome = dis("sign", Path(digest).name)
    outcome.check_one_block()
    assert outcome.code == 2


# -- challenges ------------------------------------------------------------------------------------


def test_two_builders_are_compared_without_a_byte_of_what_they_built(
    dis: Dis, own_store: Realised, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = tmp_path / "farm.claims"
    dis("key", "generate", "farm")
    dis("sign", "first", "--output", str(claims))
    setting = dis("key", "show", "farm", "--setting").out
    # Another user, who has built the same.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "other"))
    (tmp_path / "other" / "dis").mkdir(parents=True)
    manifest = str(own_store.config)
    (own_store.store / "signatures").rename(tmp_path / "gone")
    command = ("challenge", manifest, *LIMITS, "--claims", str(claims))
    assert dis(*command).code == 5
    (tmp_path / "other" / "dis" / "config.toml").write_text(setting)
    agreed = dis(*command)
    assert agreed.code == 0, agreed.out + agreed.err
    assert agreed.out.count("agree: ") == len(NEEDED)
    assert dis("challenge", manifest, *LIMITS).code == 5
    # An empty store has the claims alone: one builder.
    assert dis(*command, "--store", str(tmp_path / "empty")).code == 5


def test_a_builder_that_got_something_else_is_found(
    dis: Dis, own_store: Realised, config: Path, tmp_path: Path
) -> None:
    from dis_derivations.trust.claim import Claim, ClaimedOutput
    from dis_derivations.trust.signed_document import SignedDocument
    from dis_derivations.trust.statement import PAYLOAD_TYPE
    from dis_store.digest import Digest, Sha256

    claims = tmp_path / "farm.claims"
    private = tmp_path / "private.pem"
    private.write_bytes(signer("bob").to_pem(None))
    dis("key", "import", "farm", str(private))
    dis("sign", "first", "--output", str(claims))
    trust(config, dis("key", "show", "farm", "--setting").out)
    dis("key", "remove", "farm", "--yes")
    (own_store.store / "signatures").rename(tmp_path / "gone")
    documents = claims.read_bytes().splitlines()
    for number, document in enumerate(documents):
        payload = SignedDocument.decode(document).envelope.payload
        if b'"builder":"generation"' in payload:
            claim = Claim.decode(payload)
            outputs = dict(claim.outputs) | {
                "results": ClaimedOutput(Digest.of(b"x"), Sha256.of(b"x"))
            }
            lie = Claim(**{**vars(claim), "outputs": outputs})
            documents[number] = signer("bob").sign(lie.encode(), PAYLOAD_TYPE)
    claims.write_bytes(b"\n".join(documents))
    outcome = dis("challenge", str(own_store.config), *LIMITS, "--claims", str(claims))
    assert outcome.code == 1
    assert "(results differ)" in outcome.out
    document = dis(
        "challenge", str(own_store.config), *LIMITS, "--claims", str(claims), "--json"
    ).document
    assert {each["verdict"] for each in document["derivations"]} == {"agree", "disagree"}


@pytest.mark.parametrize("content", [b"", b"rubbish\n", b"{}\n[]\n", b"\xff\xfe\n"])
def test_a_file_without_claims_is_not_heard_and_breaks_nothing(
    dis: Dis, realised: Realised, config: Path, tmp_path: Path, content: bytes
) -> None:
    claims = tmp_path / "x.claims"
    claims.write_bytes(content)
    outcome = dis("challenge", str(realised.config), *LIMITS, "--claims", str(claims))
    assert outcome.code == 5
    assert "Traceback" not in outcome.err
    assert ("not heard" in outcome.out) == bool(content)


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        'trust = "off"',
        "trust-threshold = 1",
        "[trusted-keys.x]",
        "revoked-keys = []",
        'image-trust = "off"',
        "[trusted-identities.x]",
    ],
)
def test_a_project_says_nothing_of_trust(dis: Dis, tmp_path: Path, config: Path, line: str) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "dis.toml").write_text(f"{line}\n")
    with chdir(tmp_path / "project"):
        outcome = dis("config", "show")
    outcome.check_one_block()
    assert outcome.code == 2
    assert "may not set" in outcome.err


KEY = signer("alice").public.to_base64()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[trusted-keys.x]\n", "`key`"),
        ("[trusted-keys.x]\nkey = 1\n", "`key`"),
        ('[trusted-keys.x]\nkey = "abc"\n', "base64"),
        ('[trusted-keys.x]\nkey = "AAAA"\n', "SubjectPublicKeyInfo"),
        (f'[trusted-keys.x]\nkey = "{KEY}"\nrole = []\n', "unknown key 'role'"),
        (f'[trusted-keys.x]\nkey = "{KEY}"\nroles = ["all"]\n', "`roles`"),
        (f'[trusted-keys.x]\nkey = "{KEY}"\nroles = []\n', "`roles`"),
        (f'[trusted-keys.x]\nkey = "{KEY}"\nplatforms = ["x"]\n', "`platforms`"),
        (f'[trusted-keys.x]\nkey = "{KEY}"\nplatforms = [{{}}]\n', "`platforms`"),
        (f'[trusted-keys.x]\nkey = "{KEY}"\nexpires = "soon"\n', "`expires`"),
        (f'[trusted-keys.x]\nkey = "{KEY}"\nexpires = 2027-01-01T00:00:00\n', "with its zone"),
        (f'[trusted-keys."a/b"]\nkey = "{KEY}"\n', "name of a table"),
        ("trusted-keys = 1\n", "tables"),
        ('revoked-keys = ["x"]\n', "SHA-256"),
        ("revoked-keys = [1]\n", "list of fingerprints"),
        ('trust = "sometimes"\n', "one of require, warn, off"),
        ("trust-threshold = 0\n", "a number from 1 on"),
        ('image-trust = "yes"\n', "one of require, warn, off"),
        ('[trusted-identities.x]\nissuer = "a"\n', "an issuer, a subject and a root"),
        (
            '[trusted-identities.x]\nissuer = "a"\nsubject = "b"\nroot = "missing.json"\n',
            "cannot be read",
        ),
    ],
)
def test_a_wrong_setting_of_trust_is_refused(
    dis: Dis, config: Path, text: str, reason: str
) -> None:
    trust(config, text)
    outcome = dis("key", "list")
    outcome.check_one_block()
    assert outcome.code == 2
    assert reason in outcome.err


def test_good_settings_of_trust_are_read(dis: Dis, config: Path) -> None:
    trust(
        config,
        'trust = "warn"\ntrust-threshold = 2\n'
        f'[trusted-keys.farm]\nkey = "{KEY}"\nroles = ["builds", "images"]\n'
        'platforms = [{class = "cuda", accelerator = "NVIDIA H200"}]\nexpires = 2027-01-01\n',
    )
    settings = {each["name"]: each for each in dis("config", "show", "--json").document["settings"]}
    assert settings["trust"]["value"] == "warn"
    assert settings["trusted-keys"]["value"] == "farm"
    assert settings["trusted-keys"]["origin"] == str(config)


def test_the_variable_comes_before_the_file(
    dis: Dis, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(config, 'trust = "off"\n')
    monkeypatch.setenv("DIS_TRUST", "require")
    settings = {each["name"]: each for each in dis("config", "show", "--json").document["settings"]}
    assert (settings["trust"]["value"], settings["trust"]["origin"]) == ("require", "DIS_TRUST")
    monkeypatch.setenv("DIS_TRUST", "never")
    assert dis("config", "show").code == 2


def test_nothing_of_cryptography_is_loaded_where_nothing_is_signed(tmp_path: Path) -> None:
    code = (
        "import sys; from dis_command.main import run; run(['config', 'show']);"
        "sys.exit(int('cryptography' in sys.modules))"
    )
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], check=False, env=environment)
    assert done.returncode == 0


def test_a_passphrase_is_asked_for_twice_on_a_terminal(
    dis: Dis, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["one", "two", "same", "same"])

    def ask(prompt: str, stream: object) -> str:
        del prompt, stream
        return next(answers)

    monkeypatch.setattr("dis_command.confirmation.can_ask", lambda: True)
    monkeypatch.setattr("getpass.getpass", ask)
    assert dis("key", "generate", "laptop", "--passphrase").code == 2
    assert not (keys(config) / "laptop.key").exists()
    assert dis("key", "generate", "laptop", "--passphrase").code == 0
    assert b"ENCRYPTED" in (keys(config) / "laptop.key").read_bytes()
