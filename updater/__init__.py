"""The updater: recommendations in, resize requests out."""
