"""Tables of measures of the features themselves."""
