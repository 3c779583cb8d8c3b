"""Making a minimal image of a Python environment in the store, and of the interpreter that it needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from dis_derivations.environments.document import SITE_PACKAGES, read_environment
from dis_derivations.environments.fit import check_fit
from dis_derivations.environments.interpreter import probe_interpreter
from dis_derivations.environments.launch import STARTUP_DIRECTORY, started_in
from dis_derivations.images import interpreter_label as label
from dis_derivations.images.chunk_stream import ChunkStream
from dis_derivations.images.descriptor import Descriptor
from dis_derivations.images.image_layout import (
    INDEX_FILE,
    LAYOUT_BYTES,
    LAYOUT_FILE,
    blob_path,
    index_bytes,
)
from dis_derivations.images.interpreter_files import InterpreterFiles, interpreter_files
from dis_derivations.images.layer import Layer, LayerFile
from dis_derivations.images.media_types import OCI_CONFIG, OCI_MANIFEST
from dis_derivations.images.platform import machine_platform
from dis_derivations.images.program_files import ProgramFiles, program_files
from dis_derivations.images.shared_libraries import NeededLibraries, needed_libraries
from dis_store import canonical_json
from dis_store.digest import Digest, Sha256

if TYPE_CHECKING:
    from dis_store import ResolvedFile, Store

# Where things are in the image. The interpreter finds its library from where it is itself.
PYTHON = "dis/python"
LIBRARIES = "dis/lib"
ENVIRONMENT = "dis/environment"
STARTUP = "dis/startup"
# Where Python itself looks for a shell.
PROGRAMS = "bin"
ENVIRONMENT_DOCUMENT = "environment.json"
_USER = "65534:65534"
# No image knows when it was made: two of the same content are the same.
_CREATED = "1970-01-01T00:00:00Z"
_SCRATCH_MODE = 0o1777
_PASSWD = b"root:x:0:0::/:/\nnobody:x:65534:65534::/tmp:/\n"
_GROUP = b"root:x:0:\nnogroup:x:65534:\n"


@dataclass(frozen=True)
class MadeImage:
    """An image that was made.

    Attributes:
        object: Its object.
        manifest: The digest that pins it.
        config: What Docker calls it.
        layers: What each layer is, and its bytes.
        missing: Shared libraries that the environment asks for and this machine does not have.
    """

    object: Digest
    manifest: Sha256
    config: Sha256
    layers: tuple[tuple[str, int], ...]
    missing: tuple[str, ...]


def image_from_environment(
    store: "Store", environment: Digest, interpreter: Path, programs: Sequence[str] = ()
) -> MadeImage:
    """Make the image of an environment, or find that the store has it.

    It has three layers: the shared libraries with the programs, the interpreter, the environment. The same environment,
    interpreter, programs and libraries make the same image, byte for byte.

    Args:
        store: Has the environment, gets the image.
        environment: An object with `site-packages`, or any other, whose files are then imported from its top.
        interpreter: A CPython of this machine.
        programs: Further programs of this machine, paths or names on `PATH`; they lie in `/bin`.

    Raises:
        UnfitEnvironmentError: No image can be made of the interpreter, or of a program.
        BuildError: A file cannot be read.
        IntegrityError: The environment is not in the store.
    """
    files = {file.path: file for file in store.files(environment)}
    python = interpreter_files(interpreter)
    natives = [file.real for path, file in files.items() if _is_native(path)]
    needed = needed_libraries(natives, own=natives)
    started = program_files(programs)
    layers = (
        _libraries_layer(python, needed, started),
        _python_layer(python),
        Layer(
            {
                f"{ENVIRONMENT}/{path}": LayerFile(file.real, file.executable)
                for path, file in files.items()
            },
            {ENVIRONMENT: 0o755},
            f"environment {environment}",
        ),
    )
    config = canonical_json.encode(
        _config(_run(store, environment, files, python, started), layers)
    )
    manifest = canonical_json.encode(_manifest(config, layers))
    made = _register(store, layers, config, manifest)
    missing = {**python.needed.missing, **needed.missing}
    return MadeImage(
        made,
        Sha256.of(manifest),
        Sha256.of(config),
        tuple((layer.comment, layer.descriptor.size) for layer in layers),
        tuple(sorted(missing)),
    )


def _libraries_layer(
    python: InterpreterFiles, needed: NeededLibraries, started: ProgramFiles
) -> Layer:
    found = {**needed.libraries, **started.needed.libraries, **python.needed.libraries}
    loaders = {**needed.loaders, **started.needed.loaders, **python.needed.loaders}
    files = {
        f"{LIBRARIES}/{name}": LayerFile(path, executable=True) for name, path in found.items()
    }
    for name, path in loaders.items():
        files[name.lstrip("/")] = LayerFile(path, executable=True)
    for name, path in started.programs.items():
        files[f"{PROGRAMS}/{name}"] = LayerFile(path, executable=True)
    files["etc/passwd"], files["etc/group"] = LayerFile(_PASSWD), LayerFile(_GROUP)
    return Layer(files, {"tmp": _SCRATCH_MODE, "proc": 0o755, "dev": 0o755}, "shared libraries")


def _python_layer(python: InterpreterFiles) -> Layer:
    top = f"{PYTHON}/lib/python{python.series}"
    files = {f"{top}/{name}": LayerFile(path) for name, path in python.library.items()}
    files[f"{PYTHON}/bin/python{python.series}"] = LayerFile(python.program, executable=True)
    for path in sorted(STARTUP_DIRECTORY.glob("*.py")):
        files[f"{STARTUP}/{path.name}"] = LayerFile(path.read_bytes())
    # Even where there are no extension modules: the interpreter looks for the directory.
    return Layer(files, {f"{top}/lib-dynload": 0o755}, f"Python {python.version}")


def _run(
    store: "Store",
    environment: Digest,
    files: "Mapping[str, ResolvedFile]",
    python: InterpreterFiles,
    started: ProgramFiles,
) -> dict[str, Any]:
    """Return the member `config` of the configuration."""
    program = f"/{PYTHON}/bin/python{python.series}"
    variables = {
        "HOME": "/tmp",  # noqa: S108 - the image's own
        "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": f"/{LIBRARIES}",
        "PATH": f"/{PYTHON}/bin:/{PROGRAMS}" if started.programs else f"/{PYTHON}/bin",
        "TZ": "UTC",
    }
    if ENVIRONMENT_DOCUMENT in files and any(p.startswith(f"{SITE_PACKAGES}/") for p in files):
        start, own = _environment_start(store.object_path(environment), python.program)
        entry, variables = [program, *start], {**variables, **own}
    else:
        entry = [program, "-s", "-S", "-B"]
        variables["PYTHONPATH"] = f"/{ENVIRONMENT}"
    return {
        "Entrypoint": entry,
        "Env": [f"{name}={value}" for name, value in sorted(variables.items())],
        "Labels": {
            label.ENVIRONMENT: str(environment),
            label.PYTHON: python.version,
            label.INTERPRETER: label.interpreter_text(probe_interpreter(python.program).facts),
        },
        "User": _USER,
        "WorkingDir": "/tmp",  # noqa: S108 - the image's own
    }


def _environment_start(environment: Path, program: Path) -> tuple[list[str], dict[str, str]]:
    """Return flags and variables with which an environment is started, with its places in the image."""
    document = read_environment(environment)
    check_fit(document, probe_interpreter(program))
    return started_in(document, PurePath("/", ENVIRONMENT), PurePath("/", STARTUP))


def _config(run: Mapping[str, Any], layers: tuple[Layer, ...]) -> dict[str, Any]:
    platform = machine_platform()
    variant = {} if platform.variant is None else {"variant": platform.variant}
    return {
        "architecture": platform.architecture,
        "os": platform.os,
        **variant,
        "created": _CREATED,
        "config": dict(run),
        "rootfs": {
            "type": "layers",
            "diff_ids": [str(layer.descriptor.digest) for layer in layers],
        },
        "history": [
            {"created": _CREATED, "created_by": "dis", "comment": layer.comment} for layer in layers
        ],
    }


def _manifest(config: bytes, layers: tuple[Layer, ...]) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": Descriptor(OCI_CONFIG, Sha256.of(config), len(config)).to_json(),
        "layers": [layer.descriptor.to_json() for layer in layers],
    }


def _register(store: "Store", layers: tuple[Layer, ...], config: bytes, manifest: bytes) -> Digest:
    described = Descriptor(OCI_MANIFEST, Sha256.of(manifest), len(manifest))
    size = sum(layer.descriptor.size for layer in layers)
    with store.new_tree(expected_bytes=size, expected_files=len(layers) + 4) as tree:
        tree.write_bytes(LAYOUT_FILE, LAYOUT_BYTES)
        tree.write_bytes(INDEX_FILE, index_bytes(described))
        for data in (config, manifest):
            tree.write_bytes(blob_path(Sha256.of(data)), data)
        for layer in {each.descriptor.digest: each for each in layers}.values():
            # Read a second time; what changed between is refused.
            tree.write_stream(
                blob_path(layer.descriptor.digest),
                cast("BinaryIO", ChunkStream(layer.stream())),
                size=layer.descriptor.size,
                sha256=layer.descriptor.digest,
            )
        return tree.register()


def _is_native(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".so") or ".so." in name
