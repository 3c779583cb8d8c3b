"""The `closure` builder: everything an engine needs to load a model, as references, with the engine it is meant for."""

from collections.abc import Mapping

from dis_derivations.realisation.building import BuildContext
from dis_store import canonical_json
from dis_store.digest import Digest
from dis_store.errors import InvalidInputError

MODEL_DIRECTORY = "model"
CLOSURE_DOCUMENT = "closure.json"
# The image that the engine is to run from, as its layout.
IMAGE_DIRECTORY = "image"
# The Python environment that the engine is to run from.
ENVIRONMENT_DIRECTORY = "environment"


class ClosureBuilder:
    """Makes `model/`, a directory that any Hugging Face loader could open, and `closure.json`."""

    version = 1

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Refer to each file of the inputs once; no bytes are copied.

        Raises:
            InvalidInputError: Two parts of the model bring a file of the same name with different
                content.
        """
        owners: dict[str, tuple[str, Digest]] = {}
        with context.store.new_tree() as tree:
            for part, source in sorted(context.inputs.items()):
                if part in (IMAGE_DIRECTORY, ENVIRONMENT_DIRECTORY):
                    tree.reference(part, source.object)
                    continue
                for file in context.store.files(source.object):
                    other = owners.setdefault(file.path, (part, file.blake3))
                    if other[0] == part:
                        tree.reference(f"{MODEL_DIRECTORY}/{file.path}", source.object, file.path)
                    elif other[1] != file.blake3:
                        raise InvalidInputError(
                            f"{file.path} is in both {other[0]} and {part} of the model, with different content",
                            hint=f"list the file under one of model.{other[0]} and model.{part} in the manifest",
                        )
            tree.write_bytes(
                CLOSURE_DOCUMENT,
                canonical_json.encode({"format": 1, **context.derivation.args}),
            )
            context.log.write(f"{len(owners)} files of {len(context.inputs)} parts")
            return {"out": tree.register()}
