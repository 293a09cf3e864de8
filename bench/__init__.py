"""Speed and memory, each figure with its ratio to a stated floor measured in the same run."""
