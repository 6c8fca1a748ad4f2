"""Redis's own tests, run from outside against streamd."""
