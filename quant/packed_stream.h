// The values of a packed file's tensor, piece by piece: what is in memory is a few pieces, whatever the
// tensor's size.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "formats/crumb_file/crumb_file.h"

namespace crumb {

/// Takes the next values of a tensor.
using FloatSink = std::function<void(std::span<const float>)>;

/// Hands a tensor's values, row-major, to the sink; TensorSource::floats() piece by piece. Checksums are
/// checked before the first value of a part is used. Large parts that are compressed are decompressed into a
/// nameless file in `scratch`, a folder that can be written to; it is gone when the call ends or dies. Throws
/// Error on damaged bytes and for dtypes without float values, and what the sink throws.
void stream_floats(const CrumbFile& file, const PackedTensor& tensor, const std::filesystem::path& scratch,
                   int threads, const FloatSink& sink);

}  // namespace crumb
