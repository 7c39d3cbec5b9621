"""What a run found: the page that shows it, and how good it is against a truth."""
