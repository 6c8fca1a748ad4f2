"""Values between the two sides: fields of entries, and columns of Arrow and Spark."""
