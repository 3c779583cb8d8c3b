"""`dis schema`: the JSON Schema of a manifest."""

from dis_command.command import command, json_option, pass_session
from dis_command.session import Session


@command("schema", examples=("dis schema > manifest.schema.json",))
@json_option
@pass_session
def schema(session: Session) -> None:
    """Print the JSON Schema of a manifest.

    Of a manifest whose bases are merged. The rules between fields are not in
    it; docs/reference/manifest.md has them. The output is always JSON.
    """
    from dis_derivations.manifest.schema import manifest_schema

    session.print_document(manifest_schema())
