"""Acting on the unit that is watched: what is asked, said, done and seen."""
