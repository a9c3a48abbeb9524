// Streams the values of a packed file's tensor piece by piece: a few pieces are in memory, whatever the
// tensor's size.
#pragma once

#include <filesystem>
#include <memory>

#include "formats/crumb_file/crumb_file.h"
#include "quant/value_stream.h"

namespace crumb {

/// Opens a tensor's values, row-major. Checks checksums and contents (check_encoded()) before it gives any
/// value.
/// Large parts that are compressed are decompressed into a nameless file in `scratch`, a folder that can be
/// written to; the file is gone when the stream or the process is. Throws Error on damaged bytes and for
/// dtypes without float values. The file must outlive the stream.
std::unique_ptr<ValueStream> open_packed_stream(const CrumbFile& file, const PackedTensor& tensor,
                                                const std::filesystem::path& scratch, int threads = 0);

/// A number of values that is worth one call of a stream.
inline constexpr uint64_t kStreamPiece = uint64_t{1} << 20;

}  // namespace crumb
