"""The kinds of strings in a manifest, as types of the schema's fields."""

from typing import Annotated

from pydantic import AfterValidator, Field

from dis_derivations.manifest.text_forms import (
    CAPABILITY_PATTERN,
    IMAGE_PATTERN,
    check_capability,
    check_digest,
    check_directory_template,
    check_file_path,
    check_filled,
    check_image,
    check_name,
    check_timestamp,
)
from dis_derivations.transport.address import check_declared

NonEmpty = Annotated[str, AfterValidator(check_filled), Field(json_schema_extra={"minLength": 1})]
Name = Annotated[str, AfterValidator(check_name), Field(json_schema_extra={"minLength": 1})]
Address = Annotated[
    str,
    AfterValidator(check_declared),
    Field(json_schema_extra={"minLength": 1, "pattern": "^https?://[^@?#]*$"}),
]
FilePath = Annotated[
    str, AfterValidator(check_file_path), Field(json_schema_extra={"minLength": 1})
]
DigestText = Annotated[
    str,
    AfterValidator(check_digest),
    Field(json_schema_extra={"pattern": "^((sha256:)?[0-9a-fA-F]{64}|(sha256:)?unset)$"}),
]
ImageReference = Annotated[
    str,
    AfterValidator(check_image),
    Field(json_schema_extra={"pattern": f"^{IMAGE_PATTERN.pattern}$"}),
]
ComputeCapability = Annotated[
    str,
    AfterValidator(check_capability),
    Field(json_schema_extra={"pattern": f"^{CAPABILITY_PATTERN.pattern}$"}),
]
Timestamp = Annotated[
    str, AfterValidator(check_timestamp), Field(json_schema_extra={"format": "date-time"})
]
DirectoryTemplate = Annotated[
    str, AfterValidator(check_directory_template), Field(json_schema_extra={"minLength": 1})
]
