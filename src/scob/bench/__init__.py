"""What we claim about speed, measured."""
