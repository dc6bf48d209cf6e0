"""The whole service, run many times over in a simulated machine, network, broker, store and catalog."""
