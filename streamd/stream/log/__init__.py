"""The log of a stream: its entries in the order of their IDs, sealed into segments but for the last ones."""
