"""The web page where a person accepts or rejects recovered labels."""
