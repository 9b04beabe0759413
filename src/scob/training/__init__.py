"""A run, from its settings to its model folder."""
