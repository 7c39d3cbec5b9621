"""What compiled loops of several packages share: vector instructions, hash tables, constants."""
