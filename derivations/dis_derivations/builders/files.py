"""The `files` builder: fixed outputs, fetched from wherever the manifest says and checked against the lock."""

from collections.abc import Mapping

from dis_derivations.realisation.building import BuildContext
from dis_derivations.realisation.events import Measure
from dis_store.digest import Digest


class FilesBuilder:
    """Makes a tree of files whose digests are known before they are fetched."""

    version = 1
    fetches = True

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Fetch the files.

        Raises:
            IntegrityError: A file is not what was locked.
            BuildError: No source has a file.
        """
        args = context.derivation.args
        size = sum(file["size"] for file in args["files"])
        gauge = context.gauge("reading", Measure("bytes", 0, size))

        def count(amount: int) -> None:
            context.check_interrupted()
            gauge.add(amount)

        count_of_files = len(args["files"])
        with context.store.new_tree(
            expected_bytes=size, expected_files=count_of_files, reuses=not context.is_rebuild
        ) as tree:
            context.sources.fetch(
                args["kind"], args["files"], tree, context.check_interrupted, count
            )
            return {"out": tree.register()}
