"""Logs of builds as objects: an output of a build that ended well, and evidence of one that failed."""

import contextlib

from dis_derivations.realisation.building import BuildContext
from dis_derivations.version import VERSION
from dis_store import canonical_json
from dis_store.digest import Digest
from dis_store.errors import DisError, InterruptedBuildError

BUILD_LOG = "build.log"
BUILDER_DOCUMENT = "builder.json"


def register_log(context: BuildContext) -> Digest:
    """Make the `log` output of a build."""
    with context.store.new_tree() as tree:
        tree.write_bytes(BUILD_LOG, context.log.encode())
        tree.write_bytes(BUILDER_DOCUMENT, _builder_document(context))
        for path, content in context.log_files.items():
            if isinstance(content, Digest):
                tree.reference(path, content)
            else:
                tree.write_bytes(path, content)
        return tree.register()


def _builder_document(context: BuildContext) -> bytes:
    """Return what built: a key has the version of the builder, and no digest has that of dis."""
    derivation = context.derivation
    return canonical_json.encode(
        {
            "builder": derivation.builder,
            "builder_version": derivation.builder_version,
            "dis": VERSION,
        }
    )


def keep_log_of_failure(context: BuildContext, failure: DisError) -> None:
    """Keep the log of a build that failed, and let the failure say where it is.

    No root and no record names the object, so nothing that has a digest depends on it, and the next collection
    after this process frees it.
    """
    if isinstance(failure, InterruptedBuildError):
        return
    context.log.write(f"failed: {failure}")
    # What failed is told in any case: a disk that is full has no room for a log either.
    with contextlib.suppress(DisError, OSError):
        failure.log = str(context.store.object_path(register_log(context)) / BUILD_LOG)
