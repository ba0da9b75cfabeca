"""An assessment as a page to read, to print and to file."""
