"""A method, a reader and a backbone for Scob, offered through entry points (pyproject.toml)."""
