"""`make fuzz`: every reader of files and requests, given damaged and hostile ones by the million."""
