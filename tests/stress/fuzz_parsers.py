"""Feeds every reader of bytes from outside with what libFuzzer makes of its seeds, for some seconds each.

Usage: fuzz_parsers.py [--seconds N] [--only NAME] [--corpus DIR]

Each reader runs in a process of its own, so that one that hangs or dies stops nothing but itself. Prints how many
inputs each was given, and exits with 1 if one did anything but read or refuse its input. Wants atheris: `make fuzz`
makes an environment with it.
"""

import argparse
import contextlib
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_RAN = re.compile(r"stat::number_of_executed_units: +(\d+)")
_TIMEOUT_SECONDS = 10
_MEMORY_MIB = 2048
_LONGEST_INPUT = 16384


def main() -> int:
    """Fuzz all readers, or one in this process if the parent says so."""
    options = _options()
    if options.child:
        return _fuzz(options.only, options.rest)
    from parsers import PARSERS

    corpus = options.corpus or Path(tempfile.mkdtemp(prefix="dis-corpus-"))
    names = [options.only] if options.only else list(PARSERS)
    failed = [name for name in names if not _run(name, corpus, options.seconds)]
    _tell(f"{len(names) - len(failed)} of {len(names)} readers read or refused everything")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--child", action="store_true")
    options, rest = parser.parse_known_args()
    options.rest = rest
    return options


def _run(name: str, corpus: Path, seconds: int) -> bool:
    """Fuzz one reader in a child; tell whether it held."""
    from mutations import TOKENS
    from parsers import PARSERS

    place = corpus / re.sub(r"\W", "-", name)
    place.mkdir(parents=True, exist_ok=True)
    for seed in PARSERS[name].seeds:
        (place / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    dictionary = corpus / "tokens"
    short = [token for token in TOKENS if 0 < len(token) <= 60]
    dictionary.write_text(
        "".join('"' + "".join(f"\\x{byte:02x}" for byte in token) + '"\n' for token in short),
        "ascii",
    )
    limits = [
        f"-max_total_time={seconds}", f"-timeout={_TIMEOUT_SECONDS}", f"-rss_limit_mb={_MEMORY_MIB}",
        f"-max_len={_LONGEST_INPUT}", f"-dict={dictionary}", f"-artifact_prefix={corpus}/failure-",
        "-print_final_stats=1",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, __file__, "--child", "--only", name, *limits, str(place)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    ran = _RAN.search(done.stderr)
    _tell(
        f"{name}: {ran[1] if ran else 'unknown'} inputs, {'FAILED' if done.returncode else 'held'}"
    )
    if done.returncode:
        _tell("\n".join((done.stdout + done.stderr).splitlines()[-60:]))
    return done.returncode == 0


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _fuzz(name: str, arguments: list[str]) -> int:
    import atheris

    with atheris.instrument_imports(include=["dis_store", "dis_derivations", "dis_command"]):
        from parsers import PARSERS

        reader = PARSERS[name]
    from dis_store.errors import DisError

    def once(data: bytes) -> None:
        with contextlib.suppress(DisError):
            found = reader.read(data)
            if reader.write is not None and reader.write(found) != data:
                raise AssertionError(f"{name} accepts what it would not write")

    # What is imported late is no finding of the fuzzer.
    once(b"")
    atheris.Setup([sys.argv[0], *arguments], once)
    atheris.Fuzz()
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
