"""A pickler that writes what Python 2 wrote."""

import pickle
import struct
from collections import OrderedDict


class Python2Pickler(pickle._Pickler):
    """Strings, integers and ordered dictionaries differ; real files of that time hold them so."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_str(self, text):
        content = text.encode()
        self.write(b"U" + bytes([len(content)]) if len(content) < 256 else b"T" + struct.pack("<i", len(content)))
        self.write(content)
        self.memoize(text)

    def save_int(self, number):
        if -(2**31) <= number < 2**31:
            pickle._Pickler.save_long(self, number)
        elif -(2**63) <= number < 2**63:
            self.write(b"I%d\n" % number)
        else:
            pickle._Pickler.save_long(self, number)

    dispatch[str], dispatch[int] = save_str, save_int

    def reducer_override(self, value):
        if type(value) is not OrderedDict:
            return NotImplemented
        return (OrderedDict, ([[k, v] for k, v in value.items()],), *([vars(value)] if vars(value) else []))
