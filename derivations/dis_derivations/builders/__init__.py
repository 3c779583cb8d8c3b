"""The builders, by the name that derivations give them."""

from collections.abc import Mapping

from dis_derivations.realisation.building import Builder


def standard_builders() -> Mapping[str, Builder]:
    """Return every builder of this version."""
    from dis_derivations.builders.closure import ClosureBuilder
    from dis_derivations.builders.environment import EnvironmentBuilder
    from dis_derivations.builders.files import FilesBuilder
    from dis_derivations.builders.generation import GenerationBuilder
    from dis_derivations.builders.gguf import GgufBuilder
    from dis_derivations.builders.requests import RequestsBuilder
    from dis_derivations.builders.requests_slice import RequestsSliceBuilder
    from dis_derivations.builders.run import RunBuilder
    from dis_derivations.probing.builder import ProbeBuilder

    return {
        "files": FilesBuilder(),
        "gguf": GgufBuilder(),
        "environment": EnvironmentBuilder(),
        "requests": RequestsBuilder(),
        "requests_slice": RequestsSliceBuilder(),
        "closure": ClosureBuilder(),
        "generation": GenerationBuilder(),
        "run": RunBuilder(),
        "probe": ProbeBuilder(),
    }
