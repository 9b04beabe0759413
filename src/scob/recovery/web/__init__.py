"""The web page for accepting or rejecting recovered labels."""
