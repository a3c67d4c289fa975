"""A stand-in for Mixpanel's raw export and Query API, on this machine only. It is not Mixpanel."""
