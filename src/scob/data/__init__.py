"""From files to batches of images."""
