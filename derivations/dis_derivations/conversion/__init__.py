"""Turning weights of other forms into the form of Hugging Face, exactly."""
