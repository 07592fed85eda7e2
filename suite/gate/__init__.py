"""The gate: loaders compared with what they were, or with others, and a decision about each."""
