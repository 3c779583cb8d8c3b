"""Wheels of an index over HTTP: found by pip, fetched by dis, gone on with, and refused when they are others."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from dis_derivations.environments.wheel_source import WheelSource
from dis_derivations.sources.package_index import PackageIndex
from dis_derivations.sources.pip_settings import PipSettings
from dis_derivations.sources.pypi import LockedWheel, PypiSource
from dis_derivations.sources.source import WantedFile
from dis_derivations.transport.client import Client
from dis_derivations.transport.conduct import Conduct
from dis_derivations.transport.errors import TransferError
from dis_store import Store, WrittenFile
from dis_store.digest import Sha256
from dis_store.errors import BuildError, MismatchError
from file_server import Script, Served, serving
from package_wheels import write_package
from secret_canaries import Canary, watched
from simple_index import SimpleIndex, pip_settings, simple_index

CANARY = Canary("c4nary/of index")
# What breaks off is not tried again, and a slow machine hangs nowhere.
ONCE = Conduct(attempts=1, ranges=1)
NOISE = os.urandom(200_000)


@dataclass
class Site:
    """An index with one wheel of 200 kB, and a store to fetch into."""

    index: SimpleIndex
    wheel: Path
    top: Path
    came: int = 0

    @property
    def digest(self) -> Sha256:
        return Sha256.of(self.wheel.read_bytes())

    def source(self) -> WheelSource:
        client = Client.of(ONCE, dict(os.environ))
        return WheelSource(self.wheel.name, self.digest, index=PackageIndex(client))

    def fetch(
        self, source: WheelSource | PypiSource, path: str | None = None, *, register: bool = True
    ) -> WrittenFile:
        with Store.open(self.top) as store, store.new_tree() as tree:
            (written,) = source.fetch(
                [WantedFile(path or self.wheel.name)], tree, lambda: None, self.count
            )
            if register:
                store.verify([tree.register()])
            return written

    def count(self, amount: int) -> None:
        self.came += amount

    def left(self) -> list[Path]:
        return sorted((self.top / "downloads").glob("*/part"))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what lets pip know an index alone, with settings beside that."""
    for name in ("PIP_NO_INDEX", "PIP_NO_BINARY", "PIP_ONLY_BINARY", "PIP_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def call(url: str, more: Mapping[str, str] = MappingProxyType({})) -> None:
        for name, value in {**pip_settings(url), **more}.items():
            monkeypatch.setenv(name, value)

    return call


@pytest.fixture
def site(tmp_path: Path, use: Callable[..., None]) -> Iterator[Site]:
    with simple_index() as index:
        wheel = write_package(tmp_path / "wheels", "big", files={"big.txt": NOISE})
        index.add(wheel)
        use(index.url)
        yield Site(index, wheel, tmp_path / "store")


def test_a_wheel_that_broke_off_goes_on_where_it_stopped(site: Site) -> None:
    size = site.wheel.stat().st_size
    site.index.breaks_after = 20_000
    with pytest.raises(TransferError):
        site.fetch(site.source())
    first = site.index.sent
    assert 0 < first < size
    assert site.left()
    site.index.breaks_after, site.index.sent, site.came = None, 0, 0
    assert site.fetch(site.source()).sha256 == site.digest
    assert site.index.sent == size - first
    assert site.came == size
    assert site.left() == []


def test_pip_reads_metadata_alone_to_find_a_wheel(site: Site) -> None:
    site.fetch(site.source())
    assert site.index.sent == site.wheel.stat().st_size


@pytest.mark.slow
def test_without_metadata_of_their_own_pip_reads_the_end_of_a_wheel(site: Site) -> None:
    site.index.add(site.wheel, metadata=False)
    site.fetch(site.source())
    extra = site.index.sent - site.wheel.stat().st_size
    assert 0 < extra < 50_000


@pytest.mark.slow
def test_an_index_that_gives_no_parts_is_fetched_from_all_the_same(site: Site) -> None:
    site.index.add(site.wheel, metadata=False)
    site.index.says_ranges = False
    assert site.fetch(site.source()).sha256 == site.digest


def test_other_bytes_than_the_index_tells_are_refused_with_both_digests(site: Site) -> None:
    evil = site.wheel.read_bytes()[:-1] + b"!"
    site.index.add(site.wheel, data=evil)
    with pytest.raises(MismatchError) as caught:
        site.fetch(site.source())
    assert site.digest in str(caught.value.cause)
    assert Sha256.of(evil) in str(caught.value.cause)
    assert site.left() == []


def test_another_wheel_of_the_same_name_is_refused_with_both_digests(
    site: Site, tmp_path: Path
) -> None:
    locked, name = site.digest, site.wheel.name
    site.index.add(write_package(tmp_path / "again", "big", files={"big.txt": NOISE[::-1]}))
    client = Client.of(ONCE, dict(os.environ))
    with pytest.raises(MismatchError) as caught:
        site.fetch(WheelSource(name, locked, index=PackageIndex(client)))
    again = Sha256.of((tmp_path / "again" / name).read_bytes())
    assert locked in str(caught.value.cause)
    assert again in str(caught.value.cause)


def test_an_index_elsewhere_leads_to_no_file_of_this_machine(
    site: Site, use: Callable[..., None], tmp_path: Path
) -> None:
    private = write_package(tmp_path / "private", "big", files={"big.txt": NOISE[::-1]})
    page = (
        f'<!DOCTYPE html><html><body><a href="{private.as_uri()}">{private.name}</a></body></html>'
    )
    site.index.script.files["/simple/big/"] = Served(page.encode(), etag=None)
    for digest in (None, Sha256.of(private.read_bytes())):
        with pytest.raises(BuildError) as caught:
            site.fetch(WheelSource(site.wheel.name, digest))
        assert "leads to a file of this machine" in str(caught.value.cause)
    assert not list((site.top / "objects").glob("*/*"))
    # Where the user has named a place on it, that is what they want.
    use(site.index.url, {"PIP_FIND_LINKS": str(tmp_path / "private")})
    assert site.fetch(WheelSource(private.name, Sha256.of(private.read_bytes()))).size


def test_the_password_of_an_index_goes_to_its_own_server_and_nowhere_else(
    site: Site, use: Callable[..., None], tmp_path: Path
) -> None:
    site.index.user = f"{CANARY.user}:{CANARY.secret}"
    wheels = {f"/files/{site.wheel.name}": Served(site.wheel.read_bytes())}
    with serving(Script(wheels), host="127.0.0.2") as other:
        site.index.wheels_elsewhere = other.base
        base = site.index.url.replace("://", f"://{CANARY.user}:c4nary%2Fof%20index@")
        # A mark for those who watch: pip inherits it.
        use(base, {"DIS_TEST_MARK": str(tmp_path)})
        with watched(str(tmp_path)) as sighting:
            assert site.fetch(site.source()).sha256 == site.digest
        assert other.script.requests
        assert not any("Authorization" in each.headers for each in other.script.requests)
    asked = [each for each in site.index.script.requests if each.path.endswith(".whl")]
    assert all("Authorization" in each.headers for each in asked[-1:])
    assert not any(map(CANARY.is_in, sighting.command_lines))
    assert CANARY.places(site.top) == []


def test_the_password_is_in_nothing_that_is_kept_of_a_download_that_stopped(
    site: Site, use: Callable[..., None]
) -> None:
    site.index.user = f"{CANARY.user}:{CANARY.secret}"
    site.index.breaks_after = 20_000
    use(site.index.url.replace("://", f"://{CANARY.user}:c4nary%2Fof%20index@"))
    with pytest.raises(TransferError) as caught:
        site.fetch(site.source())
    assert site.left()
    assert CANARY.places(site.top) == []
    assert not CANARY.is_in(f"{caught.value} {caught.value.hint}".encode())


@pytest.mark.slow
def test_what_a_server_gives_to_pip_alone_is_fetched_by_pip(
    site: Site, use: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.index.user = f"{CANARY.user}:{CANARY.secret}"
    use(site.index.url.replace("://", f"://{CANARY.user}:c4nary%2Fof%20index@"))
    # As a keyring would: pip knows the password, and its settings do not say it.
    real = PipSettings.read
    monkeypatch.setattr(
        PipSettings,
        "read",
        lambda: PipSettings({**real().values, ":env:.index-url": site.index.url}),
    )
    source = site.source()
    assert site.fetch(source).sha256 == site.digest
    (remark,) = source.remarks
    assert "pip fetches big-1.0-py3-none-any.whl, from its beginning each time" in remark
    assert site.left() == []


@pytest.mark.slow
def test_an_index_in_a_directory_is_read_from_there(
    tmp_path: Path, use: Callable[..., None]
) -> None:
    wheel = write_package(tmp_path / "simple" / "big", "big", files={"big.txt": NOISE})
    (tmp_path / "simple/big/index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    use((tmp_path / "simple").as_uri())
    source = WheelSource(wheel.name, Sha256.of(wheel.read_bytes()))
    with Store.open(tmp_path / "store") as store, store.new_tree() as tree:
        (written,) = source.fetch([WantedFile(wheel.name)], tree, lambda: None)
    assert written.sha256 == Sha256.of(wheel.read_bytes())


def test_files_of_a_package_go_on_where_the_wheel_stopped(site: Site) -> None:
    locked = LockedWheel(site.wheel.name, site.digest)
    client = Client.of(ONCE, dict(os.environ))

    def source() -> PypiSource:
        return PypiSource("big", "1.0", locked=locked, index=PackageIndex(client))

    site.index.breaks_after = 20_000
    with pytest.raises(TransferError):
        site.fetch(source(), "big.txt")
    first = site.index.sent
    site.index.breaks_after, site.index.sent, site.came = None, 0, 0
    assert site.fetch(source(), "big.txt").sha256 == Sha256.of(NOISE)
    assert site.index.sent == site.wheel.stat().st_size - first
    assert site.came == len(NOISE)
    assert site.left() == []


@pytest.mark.slow
def test_a_package_that_the_index_lacks_is_told_in_pips_words(site: Site) -> None:
    source = WheelSource("none-1.0-py3-none-any.whl", site.digest)
    with pytest.raises(BuildError, match="could not fetch none==1"):
        site.fetch(source, "none-1.0-py3-none-any.whl")


# What pip is set to


def settings(**values: str) -> PipSettings:
    return PipSettings({f":env:.{name.replace('_', '-')}": value for name, value in values.items()})


def test_settings_of_variables_come_before_those_of_files() -> None:
    found = PipSettings({"global.cert": "a", "install.cert": "b", "install.proxy": "c"})
    assert (found.get("cert"), found.get("proxy"), found.get("index-url")) == ("b", "c", "")
    assert PipSettings({**found.values, ":env:.cert": "d"}).get("cert") == "d"
    changed = found.environment({"A": "1"})
    assert changed == {"A": "1", "SSL_CERT_FILE": "b", "https_proxy": "c"}


def test_of_two_indexes_on_one_server_the_closer_one_says_the_password() -> None:
    found = settings(
        index_url="https://a:1@host/one/simple", extra_index_url="https://b:2@host/two"
    )
    assert found.address_of("https://host/two/files/x.whl").userinfo == "b:2"
    assert found.address_of("https://host/one/files/x.whl").userinfo == "a:1"
    assert found.address_of("https://host:8443/one/x.whl").userinfo is None
    assert found.address_of("https://c:3@elsewhere/x.whl").userinfo is None
    assert (
        settings(index_url="https://a:1@host/", no_index="1")
        .address_of("https://host/x.whl")
        .userinfo
        is None
    )


@pytest.mark.parametrize(
    ("url", "values", "reason"),
    [
        ("http://mirror.example/x.whl", {}, "this machine alone"),
        ("https://host/x.whl", {"client_cert": "/me.pem"}, "client-cert"),
        ("https://host/x.whl", {"trusted_host": "other host"}, "trusted-host"),
        ("https://host:8443/x.whl", {"trusted_host": "host:8443"}, "trusted-host"),
    ],
)
def test_what_only_pip_can_do_is_named(url: str, values: dict[str, str], reason: str) -> None:
    assert reason in str(settings(**values).hindrance(url))
    assert settings(trusted_host="other").hindrance("https://host/x.whl") is None


def test_a_pip_that_does_not_say_its_settings_is_told_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "pip.conf"
    broken.write_text(f"[global\nindex-url = https://me:{CANARY.secret}@host/\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(broken))
    with pytest.raises(BuildError, match="does not say how it is set") as caught:
        PipSettings.read()
    assert not CANARY.is_in(str(caught.value).encode())
