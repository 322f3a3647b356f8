"""How derivatives of single examples are taken through a model."""
