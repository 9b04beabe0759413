"""The network: backbone, features, SMT and other heads, classifier."""
