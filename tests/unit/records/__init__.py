"""Every byte a topic can hold, through the decoder."""
