"""Container images in a store, made from a layout that a test wrote."""

from dis_derivations.images.source import ImageSource
from dis_derivations.sources.source import WantedFile
from dis_store import Store
from dis_store.digest import Digest
from images import LayoutMaker


def store_image(store: Store, layout: LayoutMaker, name: str = "localhost/engine") -> Digest:
    """Take the image of a layout into a store, as a lock does; return its object."""
    source = ImageSource(name, layout.directory)
    with store.new_tree() as tree:
        source.fetch([WantedFile(path) for path in source.listing()], tree, lambda: None)
        return tree.register()
