"""Read-only views of a model's inside as plain data, their pictures, and the report that shows them."""
