"""The wire forms of entries: columns of their parts, and the RESP that is made from them."""
