"""The shared work: network, training loop, accelerator."""
