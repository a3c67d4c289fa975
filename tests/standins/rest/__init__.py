"""A stand-in for a REST API of the shape of Stripe's events, on this machine only. It is not Stripe."""
