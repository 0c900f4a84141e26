"""The parts of the command `cunpool`: its explanations, its demonstration and its benchmark."""
