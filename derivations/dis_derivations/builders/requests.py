"""The `requests` builder: prompts become token ids, so that an engine never sees text."""

from collections.abc import Mapping

from dis_derivations.realisation.building import BuildContext
from dis_store.digest import Digest

REQUESTS_DOCUMENT = "requests.json"


class RequestsBuilder:
    """Makes `requests.json` from the manifest's requests, the dataset, the tokenizer and the chat template."""

    version = 1

    def build(self, context: BuildContext) -> Mapping[str, Digest]:
        """Tokenise every prompt.

        Raises:
            InvalidInputError: A prompt, the dataset, the template or the tokenizer cannot be used
                as it is.
            IntegrityError: One of them is not what it was when it came into the store.
        """
        from dis_derivations.tokenization.requests_document import build_requests, parse_requests

        args = context.derivation.args
        document = build_requests(
            args["spec"],
            dataset=_only_file(context, "dataset"),
            dataset_format=args.get("dataset_format"),
            tokenizer_files=_files(context, "tokenizer"),
            chat_template=_only_file(context, "chat_template"),
            pinned_date=args.get("pinned_date"),
        )
        requests = parse_requests(document)
        context.log.write(
            f"{len(requests)} requests, {sum(len(request.prompt_token_ids) for request in requests)} prompt tokens"
        )
        with context.store.new_tree() as tree:
            tree.write_bytes(REQUESTS_DOCUMENT, document)
            return {"out": tree.register()}


def _files(context: BuildContext, name: str) -> dict[str, bytes]:
    if name not in context.inputs:
        return {}
    source = context.inputs[name].object
    return {
        file.path: context.store.read_bytes(source, file.path)
        for file in context.store.files(source)
    }


def _only_file(context: BuildContext, name: str) -> bytes | None:
    return next(iter(_files(context, name).values()), None)
