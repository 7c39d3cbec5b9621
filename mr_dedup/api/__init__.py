"""What ``import mr_dedup`` offers: the commands as functions, over files and over tables in memory.

A function calls its command with the options it is given, so that both do the same and refuse the
same. The names in ``mr_dedup`` itself are loaded when they are used.
"""
