"""Names of rows, by which a row that is written again is recognised."""
