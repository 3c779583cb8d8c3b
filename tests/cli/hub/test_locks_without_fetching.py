"""Locks of what is on a hub, made without fetching it."""

import hashlib
from pathlib import Path

from command_line import Dis
from hub_server import Hub
from served_models import MODEL


class TestWithoutFetching:
    """`dis lock --no-fetch`."""

    def test_digests_are_those_that_the_hub_publishes(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        outcome = dis("lock", manifest, "--no-fetch", "--json")
        assert outcome.code == 0
        origins = {file["path"]: file["digest_source"] for file in outcome.document["artifacts"]}
        assert origins == {
            "model.safetensors": "published",
            "tokenizer.json": "published",
            "tokenizer_config.json": "computed",
            "special_tokens_map.json": "computed",
            "config.json": "computed",
            "generation_config.json": "computed",
            "chat_template.jinja": "computed",
        }
        assert hub.requests("", "cdn") == []
        assert dis("realize", manifest, "--quiet", "--locked").code == 0

    def test_the_lock_is_the_one_that_fetching_makes(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        published = dis("lock", manifest, "--no-fetch", "--json").document["lock_id"]
        fetched = dis("lock", manifest, "--output", "other.lock.json", "--json")
        assert fetched.document["lock_id"] == published

    def test_what_was_published_and_is_not_true_is_refused_when_it_arrives(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        assert dis("lock", manifest, "--no-fetch").code == 0
        weights = (MODEL / "model.safetensors").read_bytes()
        hub.storage[hashlib.sha256(weights).hexdigest()] = bytes(len(weights))
        outcome = dis("realize", manifest, "--quiet", "-j", "1")
        outcome.check_one_block()
        assert outcome.code == 4
        assert hashlib.sha256(weights).hexdigest() in outcome.err
        assert hashlib.sha256(bytes(len(weights))).hexdigest() in outcome.err

    def test_a_dry_run_says_that_nothing_would_be_read(
        self, dis: Dis, hub: Hub, manifest: Path
    ) -> None:
        document = dis("lock", manifest, "--no-fetch", "--dry-run", "--json").document
        assert (document["reads"], document["written"]) == ([], True)
