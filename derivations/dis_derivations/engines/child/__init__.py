"""Engines in processes of their own, run by another interpreter, and the pipes between them and dis."""
