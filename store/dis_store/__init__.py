"""A content-addressed store of immutable trees. Knows nothing about models.

Importing this package is cheap: each name is loaded from its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dis_store.archives.closure_export import ExportedClosures, export_closures
    from dis_store.archives.closure_import import (
        ImportedClosures,
        PlannedImport,
        import_closures,
        plan_import,
    )
    from dis_store.census import Census
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
    from dis_store.garbage_collection.collection import (
        CollectedObject,
        CollectionReport,
        RetirementPolicy,
    )
    from dis_store.garbage_collection.retention import Kept
    from dis_store.garbage_collection.root_weights import RootWeight
    from dis_store.garbage_collection.space_goal import SpaceGoal
    from dis_store.garbage_collection.use_history import LastUse
    from dis_store.integrity.inspection import Problem
    from dis_store.integrity.optimisation import OptimisationReport
    from dis_store.integrity.pace import Pace
    from dis_store.integrity.reindexing import ReindexReport
    from dis_store.integrity.repair import RepairReport
    from dis_store.integrity.verification import VerificationReport
    from dis_store.integrity.verification_round import RoundReport
    from dis_store.lock_holder import LockHolder
    from dis_store.realisations import Input, Realisation
    from dis_store.result_links import ResultLink
    from dis_store.roots import Retention, Root
    from dis_store.store import Store
    from dis_store.tensors.tensor_scan import Tensor
    from dis_store.tensors.tensor_set import tensor_set_digest
    from dis_store.tree import FileEntry, ReferenceEntry, Tree
    from dis_store.writing.addition import PlannedAddition, add_path, plan_addition
    from dis_store.writing.file_writer import FileWriter, WrittenFile
    from dis_store.writing.tree_writer import TreeWriter

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
    "Kept",
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
    "Retention",
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
    "writing.addition": ("PlannedAddition", "add_path", "plan_addition"),
    "census": ("Census",),
    "archives.closure_export": ("ExportedClosures", "export_closures"),
    "archives.closure_import": (
        "ImportedClosures",
        "PlannedImport",
        "import_closures",
        "plan_import",
    ),
    "garbage_collection.collection": ("CollectedObject", "CollectionReport", "RetirementPolicy"),
    "garbage_collection.use_history": ("LastUse",),
    "garbage_collection.retention": ("Kept",),
    "garbage_collection.root_weights": ("RootWeight",),
    "garbage_collection.space_goal": ("SpaceGoal",),
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
    "writing.file_writer": ("FileWriter", "WrittenFile"),
    "integrity.inspection": ("Problem",),
    "lock_holder": ("LockHolder",),
    "integrity.optimisation": ("OptimisationReport",),
    "integrity.pace": ("Pace",),
    "realisations": ("Input", "Realisation"),
    "integrity.reindexing": ("ReindexReport",),
    "integrity.repair": ("RepairReport",),
    "result_links": ("ResultLink",),
    "roots": ("Retention", "Root"),
    "store": ("Store",),
    "tensors.tensor_scan": ("Tensor",),
    "tensors.tensor_set": ("tensor_set_digest",),
    "tree": ("FileEntry", "ReferenceEntry", "Tree"),
    "writing.tree_writer": ("TreeWriter",),
    "integrity.verification": ("VerificationReport",),
    "integrity.verification_round": ("RoundReport",),
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
