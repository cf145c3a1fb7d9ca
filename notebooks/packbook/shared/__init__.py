"""What several chapters use, one idea in a file."""
