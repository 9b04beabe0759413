"""Fuzzing of every parser of files from outside."""
