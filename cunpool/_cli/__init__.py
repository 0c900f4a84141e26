"""What the command does: its demonstration and its benchmark."""
