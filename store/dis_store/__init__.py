"""A content-addressed store of immutable trees. Knows nothing about models.

Importing this package is cheap: each name is loaded from its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dis_store.addition import PlannedAddition, add_path, plan_addition
    from dis_store.census import Census
    from dis_store.closure_export import ExportedClosures, export_closures
    from dis_store.closure_import import (
        ImportedClosures,
        PlannedImport,
        import_closures,
        plan_import,
    )
    from dis_store.collection import CollectedObject, CollectionReport, RetirementPolicy
    from dis_store.contents import ResolvedFile
    from dis_store.digest import Digest, Sha256
    from dis_store.errors import (
        BuildError,
        DisError,
        IntegrityError,
        InterruptedBuildError,
        InvalidInputError,
        UnfitEnvironmentError,
    )
    from dis_store.file_writer import FileWriter, WrittenFile
    from dis_store.inspection import Problem
    from dis_store.lock_holder import LockHolder
    from dis_store.optimisation import OptimisationReport
    from dis_store.pace import Pace
    from dis_store.realisations import Input, Realisation
    from dis_store.reindexing import ReindexReport
    from dis_store.repair import RepairReport
    from dis_store.result_links import ResultLink
    from dis_store.root_weights import RootWeight
    from dis_store.roots import Root
    from dis_store.space_goal import SpaceGoal
    from dis_store.store import Store
    from dis_store.tensor_scan import Tensor
    from dis_store.tensor_set import tensor_set_digest
    from dis_store.tree import FileEntry, ReferenceEntry, Tree
    from dis_store.tree_writer import TreeWriter
    from dis_store.use_history import LastUse
    from dis_store.verification import VerificationReport
    from dis_store.verification_round import RoundReport

__all__ = [
    "BuildError",
    "Census",
    "CollectedObject",
    "CollectionReport",
    "Digest",
    "DisError",
    "ExportedClosures",
    "FileEntry",
    "FileWriter",
    "ImportedClosures",
    "Input",
    "IntegrityError",
    "InterruptedBuildError",
    "InvalidInputError",
    "LastUse",
    "LockHolder",
    "OptimisationReport",
    "Pace",
    "PlannedAddition",
    "PlannedImport",
    "Problem",
    "Realisation",
    "ReferenceEntry",
    "ReindexReport",
    "RepairReport",
    "ResolvedFile",
    "ResultLink",
    "RetirementPolicy",
    "Root",
    "RootWeight",
    "RoundReport",
    "Sha256",
    "SpaceGoal",
    "Store",
    "Tensor",
    "Tree",
    "TreeWriter",
    "UnfitEnvironmentError",
    "VerificationReport",
    "WrittenFile",
    "add_path",
    "export_closures",
    "import_closures",
    "plan_addition",
    "plan_import",
    "tensor_set_digest",
]

_HOMES = {
    "addition": ("PlannedAddition", "add_path", "plan_addition"),
    "census": ("Census",),
    "closure_export": ("ExportedClosures", "export_closures"),
    "closure_import": ("ImportedClosures", "PlannedImport", "import_closures", "plan_import"),
    "collection": ("CollectedObject", "CollectionReport", "RetirementPolicy"),
    "use_history": ("LastUse",),
    "root_weights": ("RootWeight",),
    "space_goal": ("SpaceGoal",),
    "contents": ("ResolvedFile",),
    "digest": ("Digest", "Sha256"),
    "errors": (
        "BuildError",
        "DisError",
        "IntegrityError",
        "InterruptedBuildError",
        "InvalidInputError",
        "UnfitEnvironmentError",
    ),
    "file_writer": ("FileWriter", "WrittenFile"),
    "inspection": ("Problem",),
    "lock_holder": ("LockHolder",),
    "optimisation": ("OptimisationReport",),
    "pace": ("Pace",),
    "realisations": ("Input", "Realisation"),
    "reindexing": ("ReindexReport",),
    "repair": ("RepairReport",),
    "result_links": ("ResultLink",),
    "roots": ("Root",),
    "store": ("Store",),
    "tensor_scan": ("Tensor",),
    "tensor_set": ("tensor_set_digest",),
    "tree": ("FileEntry", "ReferenceEntry", "Tree"),
    "tree_writer": ("TreeWriter",),
    "verification": ("VerificationReport",),
    "verification_round": ("RoundReport",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name):  # noqa: ANN001, ANN202 - type checkers see the imports above
        """Load a public name from its module."""
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
