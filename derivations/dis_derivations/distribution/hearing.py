"""What repositories tell of the builds of a manifest: signed documents alone, and nothing that was built."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from dis_derivations.distribution import layout
from dis_derivations.distribution.build_records import TravellingBuild, may_be_of
from dis_derivations.distribution.claim_tags import fetch_claims
from dis_derivations.graph.derivation import Derivation
from dis_derivations.graph.keys import build_key
from dis_derivations.registry.client import RegistryClient
from dis_derivations.registry.reference import RegistryReference
from dis_store.digest import Digest, Sha256
from dis_store.errors import InvalidInputError

_MOST_SIGNERS = 64
_MOST_OUTPUTS = 8
_MOST_KEYS = 64
_MOST_DOCUMENTS = 10_000

Result = tuple[Digest, ...]
"""The key of a build, and the objects that it gave."""
Outputs = Mapping[Digest, Mapping[str, Digest]]


@dataclass(frozen=True)
class Heard:
    """What repositories told.

    Attributes:
        documents: Signed documents, each once; none of them is verified.
        unsigned: How many results are there that nobody signed, so that they are nobody's word.
    """

    documents: tuple[bytes, ...]
    unsigned: int


def hear(
    client: RegistryClient,
    repositories: Sequence[RegistryReference],
    derivations: Mapping[Digest, Derivation],
    known: Outputs,
    signers: Sequence[Sha256],
    check_interrupted: Callable[[], None],
) -> Heard:
    """Return the documents that repositories hold about builds of derivations.

    Builders who disagree about one build go on with different inputs. So a build is asked for with all that its inputs
    gave, here or according to anybody.

    Args:
        client: Who asks.
        repositories: Which ones.
        derivations: By digest, inputs first.
        known: What derivations gave here.
        signers: Keys that are asked for first: of a build that hundreds signed, not all are heard.
        check_interrupted: Raises when the user asked to stop.

    Raises:
        InvalidInputError: There are too many documents.
        IntegrityError: What is there is malformed.
        RegistryRefusedError, TransferError: A repository refuses, or cannot be reached.
    """
    shelves = [Shelf.of(client, each, signers) for each in repositories]
    told = _Told()
    for digest, derivation in derivations.items():
        own = known.get(digest, {})
        outputs = {name: [each] for name, each in own.items()}
        for key in _keys(derivation, told.outputs):
            for shelf in shelves:
                check_interrupted()
                for build in shelf.builds(client, key):
                    if may_be_of(derivation, build.realisation):
                        told.take(build, proves_itself=derivation.fixed_files is not None)
                        _note(outputs, build)
        told.outputs[digest] = outputs
    return Heard(tuple(told.documents), len(told.unsigned - told.signed))


@dataclass
class _Told:
    documents: dict[bytes, None] = field(default_factory=dict)
    signed: set[Result] = field(default_factory=set)
    unsigned: set[Result] = field(default_factory=set)
    outputs: dict[Digest, dict[str, list[Digest]]] = field(default_factory=dict)

    def take(self, build: TravellingBuild, *, proves_itself: bool) -> None:
        self.documents |= dict.fromkeys(build.envelopes)
        if len(self.documents) > _MOST_DOCUMENTS:
            raise InvalidInputError(
                "what registries say of a manifest is refused",
                cause=f"it is more than {_MOST_DOCUMENTS} documents",
            )
        if not proves_itself:
            record = build.realisation
            results = self.signed if build.envelopes else self.unsigned
            results.add((record.key, *sorted(record.outputs.values())))


@dataclass(frozen=True)
class Shelf:
    """A repository, with its tags for claims by the key that they are about."""

    repository: RegistryReference
    tags: Mapping[Digest, Sequence[str]]

    @classmethod
    def of(
        cls, client: RegistryClient, repository: RegistryReference, signers: Sequence[Sha256]
    ) -> "Shelf":
        """Ask a repository for its tags.

        Args:
            client: Who asks.
            repository: The repository.
            signers: Keys whose claims come first.

        Raises:
            RegistryRefusedError, TransferError: It refuses, or cannot be reached.
        """
        tags: dict[Digest, list[str]] = {}
        for tag in client.tags(repository):
            if (key := layout.claimed_key(tag)) is not None:
                tags.setdefault(key, []).append(tag)
        for key, found in tags.items():
            wanted = {layout.claims_tag(key, each) for each in signers}
            found.sort(key=lambda tag, wanted=wanted: tag not in wanted)  # type: ignore[misc]
        return cls(repository, tags)

    def builds(self, client: RegistryClient, key: Digest) -> Iterator[TravellingBuild]:
        """Yield what anybody claims of a build, by its key without the facts of a platform.

        Raises:
            IntegrityError: A claim is malformed.
            RegistryRefusedError, TransferError: As `of`.
        """
        for tag in self.tags.get(key, ())[:_MOST_SIGNERS]:
            yield from fetch_claims(client, self.repository.with_tag(tag))


def _keys(
    derivation: Derivation, outputs: Mapping[Digest, Mapping[str, Sequence[Digest]]]
) -> list[Digest]:
    """Return the keys, without facts of platforms, of builds from all that is known of the inputs."""
    names = list(derivation.inputs)
    choices = [
        outputs.get(source.derivation, {}).get(source.output, ())
        for source in derivation.inputs.values()
    ]
    found = {
        build_key(derivation, dict(zip(names, chosen, strict=True)), {})
        for chosen in islice(product(*choices), _MOST_KEYS)
    }
    return sorted(found)


def _note(outputs: dict[str, list[Digest]], build: TravellingBuild) -> None:
    for name, digest in build.realisation.outputs.items():
        known = outputs.setdefault(name, [])
        if digest not in known and len(known) < _MOST_OUTPUTS:
            known.append(digest)
