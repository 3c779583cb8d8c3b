"""How objects and the contents of their files are entered into the index."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from dis_store.digest import Digest
from dis_store.errors import IntegrityError
from dis_store.hashing import Content
from dis_store.index import Index, Transaction
from dis_store.tensors.tensor_scan import Tensor
from dis_store.tree import Tree


def enter_object(transaction: Transaction, tree: Tree) -> None:
    """Enter an object, its references and the names of its contents.

    Raises:
        IntegrityError: An object that it refers to has no row.
    """
    # The row may be there from before, when somebody deleted the tree by hand.
    transaction.execute(
        "INSERT OR IGNORE INTO objects(digest, size) VALUES (?, ?)", (tree.digest, tree.size)
    )
    for reference in sorted({entry.object for entry in tree.references}):
        if not transaction.execute("SELECT 1 FROM objects WHERE digest = ?", (reference,)):
            raise IntegrityError(
                f"the object {tree.digest} cannot be registered",
                cause=f"it refers to {reference}, which is not in the store",
            )
        transaction.execute(
            "INSERT OR IGNORE INTO refs(referrer, reference)"
            " SELECT referrer.id, reference.id FROM objects AS referrer, objects AS reference"
            " WHERE referrer.digest = ? AND reference.digest = ?",
            (tree.digest, reference),
        )
    transaction.execute_many(
        "INSERT OR IGNORE INTO object_files(object, blake3) SELECT id, ? FROM objects WHERE digest = ?",
        ((blake3, tree.digest) for blake3 in {entry.blake3 for entry in tree.files}),
    )


def enter_contents(transaction: Transaction, contents: Iterable[Content]) -> None:
    """Enter the digests of files and of their tensors; what is known already stays."""
    listed = list(contents)
    transaction.execute_many(
        "INSERT INTO files(blake3, sha256, size) VALUES (?, ?, ?) ON CONFLICT(blake3)"
        " DO UPDATE SET sha256 = excluded.sha256 WHERE sha256 = ''",
        ((content.blake3, content.known_sha256 or "", content.size) for content in listed),
    )
    enter_tensors(transaction, {content.blake3: content.tensors for content in listed})


def enter_tensors(transaction: Transaction, found: Mapping[Digest, Sequence[Tensor]]) -> None:
    """Enter what was found in files that have rows."""
    transaction.execute_many(
        "INSERT OR IGNORE INTO tensors(file, name, dtype, shape, offset, length, blake3)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            (file, each.name, each.dtype, _shape_text(each), each.offset, each.length, each.blake3)
            for file, tensors in found.items()
            for each in tensors
        ),
    )


def remember(index: Index, file: Digest, enter: Callable[[Transaction], None]) -> None:
    """Enter what a question found in a file of the store, where the index may be written."""
    if index.read_only:
        return
    with index.transaction() as transaction:
        # A collection may have taken it meanwhile.
        if transaction.execute("SELECT 1 FROM files WHERE blake3 = ?", (file,)):
            enter(transaction)


def _shape_text(tensor: Tensor) -> str:
    return f"[{','.join(map(str, tensor.shape))}]"
