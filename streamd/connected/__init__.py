"""Clients: what they wait for and listen to, and what all of them share."""
