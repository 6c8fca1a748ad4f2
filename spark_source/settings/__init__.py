"""The options of the data source, from text to values."""
