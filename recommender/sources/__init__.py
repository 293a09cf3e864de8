"""Where usage samples come from."""
