"""Missing labels: suggested by a model, reviewed by a person, imported for the next training."""
