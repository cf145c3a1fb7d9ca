"""What several chapters borrow, a file an idea."""
