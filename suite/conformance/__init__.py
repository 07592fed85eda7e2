"""The rules of loading, one test each."""
