"""MRJob classes, one a module, each runnable alone, and the blocks they exchange."""
