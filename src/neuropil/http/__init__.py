"""What the lab and the server share: who may ask, and where they listen."""
