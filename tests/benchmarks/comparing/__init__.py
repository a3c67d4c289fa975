"""What `make benchmark BASE=…` measures, and its rule for a worse figure."""
