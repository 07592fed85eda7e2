"""What is done to a loader in its own process: experiments that take a workbench and return plain data."""
