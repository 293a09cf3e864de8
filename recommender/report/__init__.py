"""What is reserved, used and could be saved, as people read it."""
