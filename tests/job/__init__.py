"""Of the room ``job``."""
