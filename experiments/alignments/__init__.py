"""Pairs of series whose true alignment is known: piano performances, sediment cores and generated warps."""
