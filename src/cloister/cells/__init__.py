"""A cell's life: where it runs, how it is driven, what it printed. Sees engines through their port only."""
