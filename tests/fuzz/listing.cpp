#include "tests/fuzz/listing.h"

#include <algorithm>
#include <optional>
#include <set>

#include "formats/checkpoint/tensor_reader.h"

namespace crumb::testing {
namespace {

constexpr std::uint64_t kMostStorage = 1 << 20;
constexpr std::uint64_t kMostTensor = 1 << 16;
constexpr std::size_t kMostRead = 16;

void check_place(const StoredTensor& tensor, std::uint64_t bytes, std::optional<std::uint64_t> file_size) {
  const TensorPlace& place = tensor.place;
  if (file_size)
    require(place.offset <= *file_size && place.stored <= *file_size - place.offset,
            "storages lie in the file");
  require(place.coding != StorageCoding::kPlain || place.stored == place.decoded,
          "plain storages keep their size");
  require(place.strides.empty() || place.strides.size() == tensor.shape.size(), "every axis has a stride");
  if (bytes == 0) return;
  using Wide = unsigned __int128;
  const auto bits = static_cast<Wide>(dtype_bits(tensor.dtype));
  Wide end_bits = static_cast<Wide>(place.skip) * 8 + static_cast<Wide>(place.first) * bits;
  if (place.strides.empty()) {
    end_bits += static_cast<Wide>(bytes) * 8;
  } else {
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis)
      end_bits += static_cast<Wide>(tensor.shape[axis] - 1) * place.strides[axis] * bits;
    end_bits += bits;
  }
  require(end_bits <= static_cast<Wide>(place.decoded) * 8, "elements lie in their storage");
}

void check_reading(const InputFile& file, const StoredTensor& tensor, std::uint64_t bytes) {
  TensorReader reader(file, tensor);
  std::vector<std::byte> whole(bytes), pieces(bytes);
  const Status at_once = reader.read(whole);
  const bool may_fail = tensor.place.coding != StorageCoding::kPlain || tensor.place.crc;
  require(is_ok(at_once) || may_fail, "plain storages are read");
  reader.rewind();
  const std::size_t element = std::max<std::size_t>(dtype_bits(tensor.dtype) / 8, 1);
  const std::size_t step = dtype_bits(tensor.dtype) < 8 ? bytes : element * 3;
  bool all = true;
  for (std::size_t at = 0; all && at < bytes; at += step)
    all = is_ok(reader.read(std::span(pieces).subspan(at, std::min<std::size_t>(step, bytes - at))));
  require(all == at_once.ok() && (!all || pieces == whole),
          "a tensor is the same in one piece and in several");
}

}  // namespace

void check_listing(std::span<const std::byte> file, const Result<TensorListing>& listing) {
  if (!is_ok(listing)) return;
  const MemoryFile memory(file);
  const InputFile input = require_ok(InputFile::open(memory.path()), "a file is opened");
  std::set<std::string_view> names;
  std::size_t read = 0;
  for (const StoredTensor& tensor : listing.value().tensors) {
    require(names.insert(tensor.name).second, "names are unique");
    const std::uint64_t bytes =
        require_ok(tensor_byte_size(tensor.dtype, tensor.shape), "a shape has a size");
    require(is_exact_size(tensor.dtype, tensor.shape, bytes), "a tensor's bytes are what its shape takes");
    const bool is_inside = tensor.file.empty();
    check_place(tensor, bytes, is_inside ? std::optional<std::uint64_t>(file.size()) : std::nullopt);
    if (is_inside && tensor.place.decoded <= kMostStorage && bytes <= kMostTensor && read++ < kMostRead)
      check_reading(input, tensor, bytes);
  }
}

}  // namespace crumb::testing
