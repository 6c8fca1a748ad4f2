"""Journals that earlier versions wrote, and the states that these versions had."""
