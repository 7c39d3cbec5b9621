"""Files of this machine: locks, whole outputs, temporary directories, and errors that name them."""
