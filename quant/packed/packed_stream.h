// The values of a packed file's tensor, piece by piece: what is in memory is a few pieces, whatever the
// tensor's size.
#pragma once

#include <filesystem>
#include <memory>

#include "formats/crumb_file/crumb_file.h"
#include "quant/value_stream.h"

namespace crumb {

/// Opens a tensor's values, row-major. Checksums and contents (check_encoded()) are checked here, before any value is
/// given.
/// Large parts that are compressed are decompressed into a nameless file in `scratch`, a folder that can be written
/// to; it is gone when the stream is, or the process. Throws Error on damaged bytes and for dtypes without float
/// values. The file must outlive the stream.
std::unique_ptr<ValueStream> open_packed_stream(const CrumbFile& file, const PackedTensor& tensor,
                                                const std::filesystem::path& scratch, int threads = 0);

/// Values that are worth asking a stream for at a time.
inline constexpr uint64_t kStreamPiece = uint64_t{1} << 20;

}  // namespace crumb
