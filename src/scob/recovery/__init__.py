"""Missing labels: suggested, reviewed by a person, and taken back into training."""
