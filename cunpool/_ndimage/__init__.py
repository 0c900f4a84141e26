"""What `cunpool.ndimage` uses: arguments, borders, windows and types."""
