"""Recorded usage played through estimators and scored."""
