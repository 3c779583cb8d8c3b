"""The weights of two objects: which tensors differ, by how much."""
