"""Tensors of captures and of weights, compared element by element in bounded memory."""
