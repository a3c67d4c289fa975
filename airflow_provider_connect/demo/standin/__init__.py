"""What stand-ins of HTTP APIs share: how answers reach the socket, the faults of the wire, and counts."""
