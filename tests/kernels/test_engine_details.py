"""Small promises of the engine that a mutant once broke unnoticed."""
