"""Named numpy arrays in one file: safetensors, as tests/support/tensor_file.h reads and writes."""
import json
import struct

import numpy

DTYPES = {"F32": numpy.float32, "I32": numpy.int32, "I64": numpy.int64, "U8": numpy.uint8}
NAMES = {numpy.dtype(dtype): name for name, dtype in DTYPES.items()}


def write(path, tensors, notes):
    """`notes`: a dictionary of texts, the metadata."""
    header, at = {"__metadata__": {key: str(value) for key, value in notes.items()}}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)         # numbers are aligned, as the format asks
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)))
        out.write(text)
        for array in tensors.values():
            out.write(numpy.ascontiguousarray(array).data)


def read(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    data = numpy.memmap(path, numpy.uint8, "r", offset=8 + length) if header else None
    result = {}
    for name, entry in header.items():
        first, end = entry["data_offsets"]
        flat = data[first:end].view(DTYPES[entry["dtype"]])
        result[name] = flat.reshape(entry["shape"])
    return result
