"""Workshop of the OpenSearch sink."""
