"""Builds and errors arrive as they were sent, and nothing that is sent is run."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dis_derivations.confinement.errors import NetworkAttemptError
from dis_derivations.confinement.wire import (
    failure_as_json,
    failure_of,
    files_as_json,
    files_of,
    input_of,
)
from dis_derivations.lock.refusals import LockRefusedError
from dis_derivations.realisation.building import BuildContext
from dis_store.digest import Digest
from dis_store.errors import BuildError, DisError, InterruptedBuildError, MismatchError

# What is sent of a build, and what belongs to the process that makes it.
SENT = {"store", "derivation", "inputs", "platform_facts", "hints", "observed", "is_rebuild"}
OF_THE_PROCESS = {"sources", "log", "log_files", "cancelled", "report", "keep_record"}


def test_no_part_of_a_build_is_forgotten() -> None:
    assert {field.name for field in dataclasses.fields(BuildContext)} == SENT | OF_THE_PROCESS


@pytest.mark.parametrize(
    "kind", [BuildError, MismatchError, InterruptedBuildError, NetworkAttemptError]
)
def test_an_error_arrives_as_what_it_was(kind: type[DisError]) -> None:
    sent = json.loads(json.dumps(failure_as_json(kind("it broke", cause="why", hint="mend it"))))
    found = failure_of(sent)
    assert type(found) is kind
    assert (found.what, found.cause, found.hint) == ("it broke", "why", "mend it")
    assert (str(found), found.exit_code, found.log) == ("it broke: why", kind.exit_code, None)


def test_an_error_arrives_as_one_of_its_kind_and_as_no_other_class() -> None:
    document: dict[str, Any] = {"what": "x", "cause": None, "hint": None}
    newer = {**document, "kinds": ["OfANewerVersionError", "MismatchError", "DisError", "object"]}
    assert type(failure_of(newer)) is MismatchError
    for names in (["SystemExit", "object"], ["os.system"], []):
        assert type(failure_of({**document, "kinds": names})) is BuildError
    # One whose constructor wants other arguments.
    refused = {**document, "kinds": ["LockRefusedError"]}
    assert type(failure_of(refused)) is LockRefusedError


@given(st.dictionaries(st.text(), st.binary()))
def test_files_arrive_byte_for_byte(files: dict[str, bytes]) -> None:
    assert files_of(json.loads(json.dumps(files_as_json(files)))) == files


def test_an_object_in_place_of_a_file_stays_one() -> None:
    digest = Digest("ab" * 32)
    (found,) = files_of(json.loads(json.dumps(files_as_json({"generation": digest})))).values()
    assert isinstance(found, Digest)
    assert found == digest
    source = {"object": digest, "key": None, "log": digest, "platform": {"class": "any"}}
    assert input_of(source).log == digest
    assert input_of(source).key is None
