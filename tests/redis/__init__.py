"""What is shared through Redis, with a real server and workers of this process."""
