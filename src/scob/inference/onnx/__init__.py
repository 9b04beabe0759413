"""One file that predicts without torch."""
