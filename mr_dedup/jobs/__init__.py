"""MRJob classes, one a module, each runnable alone, and the batches they exchange."""
