"""The stopwatch: training, loading, and the article that started it."""
