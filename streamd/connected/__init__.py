"""Clients: their waiting and listening, and the state that all of them share."""
