"""Topics: what is wrong with one, how a missing one is made, and finding both out from the cluster."""
