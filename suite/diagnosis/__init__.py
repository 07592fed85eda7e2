"""Where the time of training goes: profiles and sweeps, collected only where they are asked for."""
