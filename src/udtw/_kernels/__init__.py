"""How the distribution over paths is computed: see README.md in this folder."""
