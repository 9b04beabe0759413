"""The paper: Algorithm 1 (bootstrap), class activation maps, the instance priority tree, the losses."""
