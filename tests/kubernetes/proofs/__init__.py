"""What elastipod does in a real cluster: installed by its chart, with its own images, as a person would."""
