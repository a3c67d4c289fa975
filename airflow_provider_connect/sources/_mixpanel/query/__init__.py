"""The streams of the Mixpanel source that ask its Query API, each as data about it."""
