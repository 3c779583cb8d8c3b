"""The keys of a user: one directory beside the settings, outside any store; private keys that nobody else may read.

A key lies there as `NAME.pub` (SubjectPublicKeyInfo in PEM) and, if it can sign, `NAME.key` (PKCS #8 in PEM, 0600).
Being there makes no key trusted: that is for the settings.
"""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dis_derivations.trust.private_key import AskPassphrase, PrivateKey
from dis_derivations.trust.public_key import MAX_PEM_BYTES, PublicKey
from dis_store.errors import InvalidInputError, UnfitEnvironmentError, UnknownReferenceError
from dis_store.platform_linux import write_all

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_PRIVATE, _PUBLIC = ".key", ".pub"
_OTHERS = 0o077
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True)
class NamedKey:
    """A key of the ring: `can_sign` where the private one is there as well."""

    name: str
    public: PublicKey
    can_sign: bool


@dataclass(frozen=True)
class KeyRing:
    """The keys in a directory, which need not be there.

    Attributes:
        directory: Where they are.
    """

    directory: Path

    def names(self) -> list[str]:
        """Return the names of all keys, in order."""
        with self._opened() as descriptor:
            found = [] if descriptor is None else os.listdir(descriptor)  # noqa: PTH208 - of a descriptor
        stems = {name.removesuffix(_PUBLIC) for name in found if name.endswith(_PUBLIC)}
        return sorted(filter(_NAME.fullmatch, stems))

    def get(self, name: str) -> NamedKey:
        """Return a key.

        Raises:
            UnknownReferenceError: There is none of this name.
            InvalidInputError: Its file is no key, or the name is none.
        """
        check_name(name)
        with self._opened() as descriptor:
            text = None if descriptor is None else _read(descriptor, name + _PUBLIC)
            can_sign = descriptor is not None and _exists(descriptor, name + _PRIVATE)
        if text is None:
            raise UnknownReferenceError(
                f"there is no key {name!r}",
                cause=f"{self.directory} has no such key",
                hint=f"make one: dis key generate {name}; or see: dis key list",
            )
        return NamedKey(name, PublicKey.from_pem(text, name=f"the key {name}"), can_sign)

    def private(self, name: str, ask: AskPassphrase) -> PrivateKey:
        """Return the private key of a name.

        Raises:
            UnknownReferenceError: There is no key of this name.
            InvalidInputError: It cannot sign here, is no private key, or its passphrase is another one.
            UnfitEnvironmentError: Others may read its file.
        """
        named = self.get(name)
        with self._opened() as descriptor:
            text = None
            if descriptor is not None:
                text = _read(descriptor, name + _PRIVATE, private=self.directory)
        if text is None:
            raise InvalidInputError(
                f"the key {name} cannot sign", cause="only its public half is here"
            )
        key = PrivateKey.from_pem(text, name=f"the key {name}", ask=ask)
        if key.public != named.public:
            raise InvalidInputError(
                f"the key {name} cannot be used",
                cause=f"{name}{_PRIVATE} and {name}{_PUBLIC} are no pair",
            )
        return key

    def add(self, name: str, public: PublicKey, private: bytes | None = None) -> NamedKey:
        """Put a key into the ring; never in the place of another.

        Args:
            name: Its name.
            public: The public key.
            private: The private one as it is to be on the disk.

        Raises:
            InvalidInputError: The name is none, or taken.
            UnfitEnvironmentError: The directory leads elsewhere, or belongs to somebody else.
        """
        check_name(name)
        self._make()
        with self._opened() as descriptor:
            if descriptor is None:
                raise UnfitEnvironmentError(f"{self.directory} cannot be used for keys")
            if _exists(descriptor, name + _PUBLIC) or _exists(descriptor, name + _PRIVATE):
                raise InvalidInputError(
                    f"there is a key {name!r} already",
                    cause="a key is never overwritten",
                    hint=f"take another name, or: dis key remove {name}",
                )
            # The private half first: without its public half it is not listed, and the same call says what is there.
            if private is not None:
                _write(descriptor, name + _PRIVATE, private, 0o600)
            _write(descriptor, name + _PUBLIC, public.to_pem(), 0o644)
        return NamedKey(name, public, private is not None)

    def remove(self, name: str) -> None:
        """Delete a key, both halves.

        Raises:
            UnknownReferenceError: There is none of this name.
        """
        check_name(name)
        with self._opened() as descriptor:
            gone = False
            for suffix in (_PRIVATE, _PUBLIC) if descriptor is not None else ():
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name + suffix, dir_fd=descriptor)
                    gone = True
            if gone and descriptor is not None:
                os.fsync(descriptor)
        if not gone:
            raise UnknownReferenceError(f"there is no key {name!r}", hint="see: dis key list")

    def signer(self, name: str | None) -> str:
        """Return the name of the key to sign with: the one that was named, or the only one that can sign.

        Raises:
            InvalidInputError: None was named, and there are none or several.
        """
        if name is not None:
            return name
        able = [each for each in self.names() if self.get(each).can_sign]
        if len(able) == 1:
            return able[0]
        raise InvalidInputError(
            "no key was named to sign with",
            cause=f"{len(able)} keys can sign: {', '.join(able)}" if able else "no key can sign",
            hint="name one: --key NAME" if able else "make one: dis key generate NAME",
        )

    def _make(self) -> None:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            self.directory.mkdir(mode=0o700)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int | None]:
        try:
            descriptor = os.open(self.directory, _DIRECTORY)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise UnfitEnvironmentError(
                f"{self.directory} cannot be used for keys", cause=error.strerror
            ) from error
        try:
            status = os.fstat(descriptor)
            if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022:
                raise UnfitEnvironmentError(
                    f"{self.directory} cannot be used for keys",
                    cause="others may write to it",
                    hint=f"make it yours alone: chmod 700 {self.directory}",
                )
            yield descriptor
        finally:
            os.close(descriptor)


def check_name(name: str) -> str:
    """Return the name of a key, which becomes that of a file.

    Raises:
        InvalidInputError: It is none.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{name[:80]!r} cannot name a key",
            cause="a name is a letter or a digit, and up to 63 of a-z, A-Z, 0-9, '.', '_', '@' and '-'",
        )
    return name


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _read(directory: int, name: str, *, private: Path | None = None) -> bytes | None:
    """Return a file; None where there is none. `private`: where it lies, if nobody else may read it."""
    try:
        descriptor = os.open(name, _READ, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInputError(f"the key {name} cannot be read", cause=error.strerror) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInputError(f"the key {name} cannot be read", cause="it is no file")
        if private is not None and status.st_mode & _OTHERS:
            raise UnfitEnvironmentError(
                f"the key {name} is not used",
                cause=f"others may read it: its mode is {stat.S_IMODE(status.st_mode):04o}",
                hint=f"make it yours alone, and ask who read it: chmod 600 {private / name}",
            )
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(MAX_PEM_BYTES + 1)
    finally:
        os.close(descriptor)


def _write(directory: int, name: str, data: bytes, mode: int) -> None:
    """Write a new file in one step: nobody sees a part of it, and none that is there is replaced."""
    temporary = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, mode, dir_fd=directory)
    try:
        try:
            write_all(descriptor, data)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    finally:
        os.unlink(temporary, dir_fd=directory)
    os.fsync(directory)
