"""What a cascade's first nets take for faces, as examples for the next."""
