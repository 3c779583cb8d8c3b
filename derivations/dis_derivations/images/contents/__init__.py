"""What is in the layers of images: their members, read within limits, and the lists of packages among them."""
