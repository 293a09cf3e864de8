"""Ways to estimate what a container needs from its history; one function shape."""
