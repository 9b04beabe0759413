"""The embedded data set: scenes drawn by code."""
