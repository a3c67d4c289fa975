"""A stand-in for Mixpanel's raw export, on this machine only. It is not Mixpanel."""
