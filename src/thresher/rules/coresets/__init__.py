"""Selections by geometry: pure functions on embeddings, and the rules that ask them."""
