"""Internal modules of the Mixpanel source."""
