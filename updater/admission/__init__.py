"""Sizes at creation: the webhook that the API server asks about each new pod."""
