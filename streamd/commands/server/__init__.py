"""Commands about the server and its clients: a file for each family."""
