"""Engines run jobs over the parts of a dataset; jobs are independent of them."""
