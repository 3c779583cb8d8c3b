"""The `environment` builder: wheels unpacked into one tree that an interpreter can import from."""

from collections.abc import Mapping

from dis_derivations.realisation.building import BuildContext
from dis_derivations.realisation.events import Measure
from dis_store.contents import ResolvedFile, changed
from dis_store.digest import Digest, Sha256
from dis_store.environment import reading
from dis_store.errors import BuildError
from dis_store.hashing import hash_content


class EnvironmentBuilder:
    """Makes `site-packages/`, `data/` where wheels bring any, and `environment.json`.

    It goes by the wheels alone: the same wheels make the same bytes on every machine, with any interpreter or none.
    """

    version = 1

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Unpack the wheels of the inputs.

        Raises:
            IntegrityError: A wheel is not what it was when it came into the store.
            InvalidInputError: A wheel is refused, or two of them do not go together.
        """
        from dis_derivations.environments.interpreter import find_interpreter
        from dis_derivations.environments.unpacking import WheelUnpacker
        from dis_derivations.environments.wheel_contents import Wheel
        from dis_store.errors import UnfitEnvironmentError

        files = [
            file
            for _, source in sorted(context.inputs.items())
            for file in context.store.files(source.object)
        ]
        gauge = context.gauge("unpacking wheels", Measure("bytes", 0))

        def count(amount: int) -> None:
            context.check_interrupted()
            gauge.add(amount)

        python = str(context.derivation.args["python"])
        packed = sum(file.size for file in files)
        with context.store.new_tree(expected_bytes=2 * packed, expected_files=len(files)) as tree:
            unpacker = WheelUnpacker(tree, count)
            for file in files:
                unpacker.add(Wheel(file.real, file.path, _verified(context, file)))
                context.log.write(f"unpacked {file.path}")
            document = unpacker.finish(python)
            for line in document.ignored:
                context.log.write(f"left without effect: {line}")
            digest = tree.register()
        # No interpreter is part of the object. The one that would run it here is told to whoever reads the log.
        try:
            facts = find_interpreter(python).facts
        except UnfitEnvironmentError as error:
            context.log.write(f"here is no interpreter for it: {error.what}")
        else:
            context.log.write(
                f"{facts['python']} on {facts['machine']} with {facts['libc'] or 'an unknown libc'} would run it here"
            )
        return {"out": digest}


def _verified(context: BuildContext, file: ResolvedFile) -> Sha256:
    """Hash a wheel again: what is unpacked must be what was locked."""
    gauge = context.gauge(f"verifying {file.path}", Measure("bytes", 0, file.size))

    def count(amount: int) -> None:
        context.check_interrupted()
        gauge.add(amount)

    try:
        with reading(file.real), file.real.open("rb") as opened:
            found = hash_content(opened.fileno(), on_bytes=count)
    except OSError as error:
        raise BuildError(f"cannot read {file.real}", cause=error.strerror) from error
    if found.blake3 != file.blake3:
        raise changed(file, f"its BLAKE3 is {found.blake3}, and must be {file.blake3}")
    return found.sha256
