"""A query between two streams of a Redis cluster whose masters are killed again and again."""
