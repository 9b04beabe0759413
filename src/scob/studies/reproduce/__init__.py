"""The paper's tables and figures as code, with the paper's numbers next to ours."""
