"""The workshop of the Mixpanel source."""
