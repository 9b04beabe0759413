"""Several runs side by side: comparisons, the demo, the tables and figures of the paper."""
