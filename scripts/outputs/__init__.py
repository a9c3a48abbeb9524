"""The parts of scripts/same_outputs."""
