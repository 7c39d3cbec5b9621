"""Engines run jobs over the parts of a dataset; jobs know none of them."""
