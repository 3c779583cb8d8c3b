"""What can be wrong with a chat template."""

from dis_store.errors import InvalidInputError

GIVE_ANOTHER = "give another template as model.chat_template.file"


class ChatTemplateError(InvalidInputError):
    """A chat template cannot be rendered, or does not accept the conversation."""

    code = "E0223"


class RunawayTemplateError(ChatTemplateError):
    """A chat template does, or makes, far more than any prompt needs."""

    code = "E0224"
