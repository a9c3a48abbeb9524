// Is a packed file sound? What `crumb verify` asks, and what whoever hands out values asks before.
#pragma once

#include <functional>

#include "formats/crumb_file/crumb_file.h"

namespace crumb {

/// Gives a part's raw bytes to a sink in slices of any size, in order; ends with the sink's Failure, or its own.
using ReadPart = std::function<Status(Part, const CrumbFile::Sink&)>;

/// Those of a tensor as they lie in the file, checksums included. Both must outlive it.
ReadPart parts_of(const CrumbFile& file, const PackedTensor& tensor);

/// What the checksums of an encoded tensor do not tell: codes that the quantizer may emit (none that stands for inf or
/// NaN), finite scales that are not negative, zero points in range, an ascending codebook, zero padding bits. A Failure
/// names the tensor, where, what was found and expected. Takes a few megabytes of memory whatever the sizes.
Status check_encoded(const PackedTensor& tensor, const ReadPart& read);

/// The two halves of it: all parts but the codes; the codes.
Status check_blocks(const PackedTensor& tensor, const ReadPart& read);
Status check_codes(const PackedTensor& tensor, const ReadPart& read);

/// The same of a tensor's parts as they lie in the file, checksums included.
Status check_encoded(const CrumbFile& file, const PackedTensor& tensor);

/// The whole file: every blob's checksum and size, every encoded tensor's contents.
Status check_packed_file(const CrumbFile& file);

}  // namespace crumb
