"""Where tile steps run."""
