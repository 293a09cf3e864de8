"""The programs that the demo's pods run: plain Python, the standard library only, knowing nothing of elastipod."""
