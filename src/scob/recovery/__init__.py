"""Missing labels: suggested by a model, reviewed by a user, imported for the next training."""
