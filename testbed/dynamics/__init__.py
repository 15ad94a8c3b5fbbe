"""How a WAN changes while a run goes on: traces and faults as pure timelines, and the player that applies them."""
