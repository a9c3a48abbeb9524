// Checks whether a packed file is sound, for `crumb verify` and before values are handed out.
#pragma once

#include <functional>

#include "formats/crumb_file/crumb_file.h"

namespace crumb {

/// Gives a part's raw bytes to a sink in slices of any size, in order. Fails where the sink or reading fails.
using ReadPart = std::function<Status(Part, const CrumbFile::Sink&)>;

/// Returns a reader of a tensor's parts as they are stored in the file, checksums included. Both must outlive
/// it.
ReadPart parts_of(const CrumbFile& file, const PackedTensor& tensor);

/// Checks what the checksums of an encoded tensor do not tell: codes that the quantizer may emit (none that
/// stands for inf or NaN), finite scales that are not negative, zero points in range, an ascending codebook,
/// zero padding bits. A Failure names the tensor and the element or block, what was found and what was
/// expected. Takes a few megabytes of memory whatever the sizes.
Status check_encoded(const PackedTensor& tensor, const ReadPart& read);

/// The two halves of check_encoded(): all parts but the codes; the codes.
Status check_blocks(const PackedTensor& tensor, const ReadPart& read);
Status check_codes(const PackedTensor& tensor, const ReadPart& read);

/// The same for a tensor's parts as they are stored in the file, checksums included.
Status check_encoded(const CrumbFile& file, const PackedTensor& tensor);

/// Checks the whole file: every blob's checksum and size, every encoded tensor's contents.
Status check_packed_file(const CrumbFile& file);

}  // namespace crumb
