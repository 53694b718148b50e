"""Tokens of a data set, computed once by a frozen backbone, kept in mapped files, and read in batches."""

from udtw.images.tokens.embed import embed
from udtw.images.tokens.store import open_tokens
from udtw.images.tokens.token_set import TokenSet
