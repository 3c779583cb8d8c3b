"""The base of every block: strict, frozen, closed to unknown keys, open to `x_…` notes."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

Item = TypeVar("Item")

# A JSON list. Pydantic's strict mode would want a Python tuple as input; its items stay strict.
Items = Annotated[tuple[Item, ...], Field(strict=False)]


class Block(BaseModel):
    """An object of the manifest. Keys beginning with `x_` are its author's notes; it drops them."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        defer_build=True,
        protected_namespaces=(),
        # What is refused may be a password, and a traceback would quote it.
        hide_input_in_errors=True,
        json_schema_extra={"patternProperties": {"^x_": {}}},
    )

    @model_validator(mode="before")
    @classmethod
    def _without_notes(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        fields = cls.model_fields
        return {
            key: item for key, item in value.items() if key in fields or not key.startswith("x_")
        }
