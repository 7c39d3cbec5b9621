"""Functions that are written in LLVM: imported by the compiler of kernels only."""
