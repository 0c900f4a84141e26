"""The parts of the command `cunpool`: its demonstration and its benchmark."""
