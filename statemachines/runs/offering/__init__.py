"""How a run comes about: a case is judged, a receipt issued, claimed, and a run started."""
