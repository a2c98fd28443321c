"""What was blessed last, kept in a folder: for runners whose metadata no step can ask."""
