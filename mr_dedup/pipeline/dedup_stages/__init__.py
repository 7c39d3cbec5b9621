"""The stages of a de-duplication; each runs over all documents and leaves files."""
