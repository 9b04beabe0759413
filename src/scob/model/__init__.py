"""The network: backbone, features, heads."""
