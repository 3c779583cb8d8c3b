"""The `run` builder: assembles the bundle of a run from results, manifest and lock."""

from collections.abc import Mapping
from typing import Any

from dis_derivations.builders.requests import REQUESTS_DOCUMENT
from dis_derivations.lock.unverified_digests import MEMBER
from dis_derivations.realisation.building import BuildContext
from dis_derivations.runs import bundle
from dis_derivations.runs.run_directory import RUN_LOG
from dis_derivations.runs.unverified_run_log import unverified_run_log
from dis_store import canonical_json, strict_json
from dis_store.digest import Digest


class RunBuilder:
    """Makes the `bundle`: small documents of its own, and references to the captures in the results."""

    version = 1

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Assemble the bundle; cheap, since nothing is generated or copied."""
        args = context.derivation.args
        results = context.inputs["results"]
        objects = {name: source.object for name, source in context.inputs.items()}
        captured = [file.path for file in context.store.files(results.object)]
        engine = _read(context, results.object, bundle.ENGINE_DOCUMENT)
        documents = {
            bundle.BUNDLE_DOCUMENT: bundle.bundle_document(
                args, objects, engine, results.platform, captured
            ),
            bundle.MANIFEST_DOCUMENT: args["manifest"],
            bundle.LOCK_DOCUMENT: args["lock"],
            bundle.TOKENS_DOCUMENT: bundle.tokens_document(
                args["manifest"],
                engine["engine"],
                objects["tokenizer"],
                _read(context, objects["requests"], REQUESTS_DOCUMENT)["requests"],
                _read(context, results.object, bundle.TOKENS_DOCUMENT)["sequences"],
            ),
        }
        if results.log is not None:
            context.log_files["generation"] = results.log
        if MEMBER in args:
            _log_unverified(context, args[MEMBER])
        context.log_files.update(context.observed)
        with context.store.new_tree() as tree:
            for path, document in documents.items():
                tree.write_bytes(path, canonical_json.encode(document))
            for path in captured:
                if path in bundle.REFERENCED_RESULTS:
                    tree.reference(path, results.object, path)
            return {"bundle": tree.register()}


def _log_unverified(context: BuildContext, unverified: Mapping[str, Any]) -> None:
    """Say in the logs of the run what was not verified; those of its generation are shared with runs that were."""
    count = len(unverified["files"])
    context.log.write(f"WARNING: the digests of the lock were not verified, those of {count} files")
    log = context.inputs["results"].log
    if log is None or RUN_LOG not in {file.path for file in context.store.files(log)}:
        return
    document = _read(context, log, RUN_LOG)
    context.log_files[RUN_LOG] = canonical_json.encode(unverified_run_log(document, unverified))


def _read(context: BuildContext, digest: Digest, path: str) -> Any:
    return strict_json.decode(context.store.read_bytes(digest, path), name=path)
