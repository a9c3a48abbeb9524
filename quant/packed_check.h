// Is a packed file sound? What `crumb verify` asks.
#pragma once

#include "formats/crumb_file/crumb_file.h"

namespace crumb {

/// An encoded tensor's checksums, and what they do not tell: codes that the quantizer may emit (none that
/// stands for inf or NaN), finite scales that are not negative, zero points in range, an ascending codebook,
/// zero padding bits. A Failure names the tensor, where, what was found and expected. Takes a few megabytes
/// of memory whatever the sizes.
Status check_encoded(const CrumbFile& file, const PackedTensor& tensor);

/// The whole file: every blob's checksum and size, every encoded tensor's contents.
Status check_packed_file(const CrumbFile& file);

}  // namespace crumb
