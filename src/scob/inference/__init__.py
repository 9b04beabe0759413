"""A trained model in use: predict, explain, evaluate, choose thresholds, export."""
