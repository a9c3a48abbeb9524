#include "formats/checkpoint/tensor_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked_size.h"
#include "base/checksum.h"
#include "base/files/text.h"
#include "formats/gguf/ggml_type.h"
#include "formats/half.h"

namespace crumb {
namespace {

constexpr std::size_t kInputPiece = std::size_t{64} << 10;
constexpr std::uint64_t kTileElements = std::uint64_t{1} << 20;
constexpr std::uint64_t kWidestTiledRow = std::uint64_t{1} << 17;

void swap_bytes(std::span<std::byte> bytes, std::size_t size) {
  if (size == 1) return;
  for (std::size_t at = 0; at + size <= bytes.size(); at += size)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
}

/// Whether elements are found where they lie, not read in the storage's order.
bool is_found_by_rows(const TensorPlace& place) {
  return place.coding == StorageCoding::kGgmlBlocks || place.interleaved_rows != 0 || place.added != 0;
}

/// The tile of a computed matrix that holds an element: whole rows, as long as they are not very long.
MatrixTile tile_at(const StoredTensor& tensor, std::uint64_t row, std::uint64_t col) {
  constexpr std::uint64_t kStep = ComputedMatrix::kTileStep;
  const std::uint64_t rows = matrix_rows(tensor.shape), cols = matrix_cols(tensor.shape);
  if (cols > kWidestTiledRow) {
    const std::uint64_t first = col - col % kTileElements;
    return {row, 1, first, std::min(kTileElements, cols - first)};
  }
  const std::uint64_t count =
      std::max(kStep, kTileElements / std::max<std::uint64_t>(cols, 1) / kStep * kStep);
  const std::uint64_t first = row - row % count;
  return {first, std::min(count, rows - first), 0, cols};
}

/// Floats as elements of a type that holds them.
void narrow_elements(DType dtype, std::span<const float> values, std::byte* out) {
  for (const float value : values) {
    if (dtype == DType::kF32) {
      std::memcpy(out, &value, sizeof value);
      out += sizeof value;
      continue;
    }
    const std::uint16_t half = dtype == DType::kF16 ? float_to_f16(value) : float_to_bf16(value);
    std::memcpy(out, &half, sizeof half);
    out += sizeof half;
  }
}

template <class Stored>
double number_of(const std::byte* at) {
  Stored stored;
  std::memcpy(&stored, at, sizeof stored);
  return static_cast<double>(stored);
}

/// A number of the types that AffineCodes has.
double number_at(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kU8: return number_of<std::uint8_t>(at);
    case DType::kI8: return number_of<std::int8_t>(at);
    case DType::kI32: return number_of<std::int32_t>(at);
    case DType::kI64: return number_of<std::int64_t>(at);
    case DType::kF32: return number_of<float>(at);
    default: return number_of<double>(at);
  }
}

/// The size of what is swapped in big-endian files: C64 is two numbers.
std::size_t number_bytes(DType dtype) { return dtype == DType::kC64 ? 4 : dtype_bits(dtype) / 8; }

}  // namespace

TensorReader::TensorReader(const InputFile& file, const StoredTensor& tensor)
    : file_(&file), tensor_(&tensor) {}

std::uint64_t TensorReader::resident_bytes(const StoredTensor& tensor) {
  if (!tensor.place.strides.empty()) return tensor.place.decoded;
  if (tensor.place.coding == StorageCoding::kComputed) {
    // A tile's elements, values, codes, and at the worst a scale, a zero point and a group for each.
    const MatrixTile tile = tile_at(tensor, 0, 0);
    return tile.size() * 24 + kInputPiece * 32;
  }
  if (tensor.place.coding == StorageCoding::kAffine) {
    const AffineCodes& affine = *tensor.place.affine;
    const std::uint64_t channels = affine.axis ? tensor.shape[*affine.axis] : 1;
    return resident_bytes(affine.codes) + kInputPiece + channels * 2 * sizeof(double);
  }
  return tensor.place.coding == StorageCoding::kPlain ? 0 : 4 * kInputPiece;
}

void TensorReader::rewind() {
  position_ = 0;
  for (TensorReader& codes : codes_) codes.rewind();
  if (tensor_->place.strides.empty()) restart();
}

void TensorReader::restart() {
  decoded_ = consumed_ = 0;
  crc_ = 0;
  input_.clear();
  inflater_.reset();
}

Failure TensorReader::damaged(const std::string& why) const {
  return Failure{quote_text(file_->path().native()) + ": tensor " + quote_text(tensor_->name) + ": " + why};
}

/// Coded bytes into input_, at least one unless the coded storage is at its end.
Status TensorReader::fill_input() {
  const std::uint64_t left = tensor_->place.stored - consumed_;
  const std::size_t waiting = input_.size();
  const auto piece = static_cast<std::size_t>(std::min<std::uint64_t>(left, kInputPiece));
  input_.resize(waiting + piece);
  if (const Status read = file_->read(tensor_->place.offset + consumed_, std::span(input_).subspan(waiting));
      !read.ok())
    return read;
  consumed_ += piece;
  return {};
}

Status TensorReader::inflate(std::span<std::byte> out) {
  if (!inflater_) inflater_.emplace();
  const std::uint64_t after = tensor_->place.decoded - decoded_ - out.size();  // what is not asked for yet
  std::size_t used = 0;
  while (!out.empty()) {
    if (used == input_.size()) {
      input_.clear();
      used = 0;
      if (const Status filled = fill_input(); !filled.ok()) return filled;
    }
    const Result<Inflater::Step> step = inflater_->step(std::span(input_).subspan(used), out);
    if (!step.ok()) return damaged(step.failure().message);
    used += step.value().consumed;
    out = out.subspan(step.value().produced);
    if (out.empty()) break;
    const bool stuck = step.value().consumed == 0 && step.value().produced == 0;
    if (step.value().ended || (stuck && consumed_ == tensor_->place.stored))
      return damaged("its compressed data ends " + byte_text(after + out.size()) + " too early");
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(used));
  return {};
}

Status TensorReader::read_varints(std::span<std::byte> out) {
  const std::size_t size = std::max<std::size_t>(1, dtype_bits(tensor_->dtype) / 8);  // a number holds two F4
  std::size_t used = 0;
  for (std::size_t at = 0; at < out.size(); at += size) {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (used == input_.size()) {
        input_.clear();
        used = 0;
        if (consumed_ == tensor_->place.stored) return damaged("its data ends inside a number");
        if (const Status filled = fill_input(); !filled.ok()) return filled;
      }
      const auto byte = static_cast<std::uint64_t>(input_[used++]);
      if (shift > 63) return damaged("its data holds a number of more than ten bytes");
      value |= (byte & 127u) << shift;
      if (byte < 128) break;
    }
    std::memcpy(out.data() + at, &value, size);
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(used));
  return {};
}

/// The next bytes of the decoded storage.
Status TensorReader::decode(std::span<std::byte> out) {
  const TensorPlace& place = tensor_->place;
  if (out.empty()) return {};
  if (place.decoded - decoded_ < out.size()) return damaged("its storage is too small");
  Status done;
  switch (place.coding) {
    case StorageCoding::kPlain: done = file_->read(place.offset + decoded_, out); break;
    case StorageCoding::kDeflate: done = inflate(out); break;
    case StorageCoding::kVarints: done = read_varints(out); break;
    case StorageCoding::kGgmlBlocks:
    case StorageCoding::kComputed:
    case StorageCoding::kAffine: return damaged("it is no stream");  // read_rows, read_computed, read_affine
  }
  if (!done.ok()) return done;
  decoded_ += out.size();
  if (place.coding == StorageCoding::kVarints && decoded_ == place.decoded &&
      (!input_.empty() || consumed_ < place.stored))
    return damaged("its data hold more numbers than its shape");
  if (!place.crc) return {};
  crc_ = crc32_of(out, crc_);
  if (decoded_ == place.decoded && crc_ != *place.crc)
    return damaged("its checksum does not match: the data is damaged");
  return {};
}

/// Passes over storage bytes that the tensor does not want.
Status TensorReader::skip_to(std::uint64_t storage_byte) {
  // Plain bytes without a checksum need not be read.
  if (tensor_->place.coding == StorageCoding::kPlain && !tensor_->place.crc) {
    decoded_ = storage_byte;
    return {};
  }
  std::vector<std::byte> passed(kInputPiece);
  while (decoded_ < storage_byte) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(storage_byte - decoded_, kInputPiece));
    if (const Status done = decode(std::span(passed).first(count)); !done.ok()) return done;
  }
  return {};
}

/// The whole storage in memory, little-endian.
Status TensorReader::load_storage() {
  if (!storage_.empty() || tensor_->place.decoded == 0) return {};
  restart();
  storage_.resize(tensor_->place.decoded);
  if (const Status read = decode(storage_); !read.ok()) {
    storage_.clear();
    return read;
  }
  if (tensor_->place.big_endian)
    swap_bytes(std::span(storage_).subspan(tensor_->place.skip), number_bytes(tensor_->dtype));
  return {};
}

Status TensorReader::gather(std::span<std::byte> out) {
  const TensorPlace& place = tensor_->place;
  const std::size_t size = dtype_bits(tensor_->dtype) / 8;
  if (const Status loaded = load_storage(); !loaded.ok()) return loaded;
  const std::vector<std::uint64_t>& shape = tensor_->shape;
  std::vector<std::uint64_t> index(shape.size());
  std::uint64_t rest = position_ / size, element = place.first;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = rest % shape[axis];
    rest /= shape[axis];
    element += index[axis] * place.strides[axis];
  }
  for (std::size_t at = 0; at < out.size(); at += size) {
    const checked::Size from = checked::add(place.skip, checked::multiply(element, size));
    if (!checked::fits(from, size, storage_.size())) return damaged("its view leaves its storage");
    std::memcpy(out.data() + at, storage_.data() + *from, size);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      element += place.strides[axis];
      if (++index[axis] < shape[axis]) break;
      element -= place.strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return {};
}

/// The next bytes of a storage that lies in the tensor's own order.
Status TensorReader::read_in_order(std::span<std::byte> out) {
  const TensorPlace& place = tensor_->place;
  const checked::Size first_bits = checked::multiply(place.first, dtype_bits(tensor_->dtype));
  const checked::Size begin =
      first_bits ? checked::add(checked::add(place.skip, *first_bits / 8), position_) : checked::Size();
  if (!checked::fits(begin, out.size(), place.decoded)) return damaged("its storage is too small");
  if (decoded_ != *begin) {
    if (const Status skipped = skip_to(*begin); !skipped.ok()) return skipped;
  }
  if (const Status done = decode(out); !done.ok()) return done;
  if (place.big_endian) swap_bytes(out, number_bytes(tensor_->dtype));
  return {};
}

/// Elements of the storage, from any on.
Status TensorReader::read_elements(std::uint64_t element, std::span<std::byte> out) {
  const TensorPlace& place = tensor_->place;
  const std::size_t size = dtype_bits(tensor_->dtype) / 8;
  if (place.coding != StorageCoding::kGgmlBlocks) {
    const checked::Size begin = checked::multiply(element, size);
    if (!checked::fits(begin, out.size(), place.stored)) return damaged("its storage is too small");
    return file_->read(place.offset + *begin, out);
  }
  const GgmlType& type = *place.blocks;
  const std::uint64_t piece =
      std::max<std::uint64_t>(1, kInputPiece / type.block_bytes) * type.block_elements;
  std::vector<float> values;
  while (!out.empty()) {
    const std::uint64_t skip = element % type.block_elements;
    const std::uint64_t count = std::min<std::uint64_t>(out.size() / sizeof(float), piece - skip);
    const std::uint64_t blocks = (skip + count + type.block_elements - 1) / type.block_elements;
    const checked::Size begin = checked::multiply(element / type.block_elements, type.block_bytes);
    input_.resize(blocks * type.block_bytes);
    if (!checked::fits(begin, input_.size(), place.stored)) return damaged("its storage is too small");
    if (Status read = file_->read(place.offset + *begin, input_); !read.ok()) return read;
    values.resize(count);
    decode_ggml(type, input_, skip, values, place.block_scale);
    std::memcpy(out.data(), values.data(), count * sizeof(float));
    out = out.subspan(count * sizeof(float));
    element += count;
  }
  return {};
}

/// The next bytes of a tensor whose elements are found where they lie.
Status TensorReader::read_rows(std::span<std::byte> out) {
  const TensorPlace& place = tensor_->place;
  const std::size_t size = dtype_bits(tensor_->dtype) / 8;
  const std::uint64_t row = tensor_->shape.size() < 2 ? 1 : tensor_->shape.back();
  std::uint64_t element = position_ / size;
  for (std::span<std::byte> rest = out; !rest.empty();) {
    std::uint64_t count = rest.size() / size, from = element;
    if (place.interleaved_rows != 0) {
      from = interleaved_row(element / row, place.interleaved_rows) * row + element % row;
      count = std::min(count, row - element % row);
    }
    if (Status done = read_elements(from, rest.first(count * size)); !done.ok()) return done;
    rest = rest.subspan(count * size);
    element += count;
  }
  if (place.added == 0) return {};
  for (std::size_t at = 0; at + sizeof(float) <= out.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, out.data() + at, sizeof value);
    value += place.added;
    std::memcpy(out.data() + at, &value, sizeof value);
  }
  return {};
}

/// Makes the tile that holds an element the current one.
Status TensorReader::compute_tile(std::uint64_t row, std::uint64_t col) {
  tile_ = tile_at(*tensor_, row, col);
  std::vector<float> values(tile_.size());
  if (const Status done = tensor_->place.computed->read(tile_, values); !done.ok()) {
    tile_ = {};
    return damaged(done.failure().message);
  }
  storage_.resize(tile_.size() * (dtype_bits(tensor_->dtype) / 8));
  narrow_elements(tensor_->dtype, values, storage_.data());
  return {};
}

/// The next bytes of a matrix that is computed.
Status TensorReader::read_computed(std::span<std::byte> out) {
  const std::size_t size = dtype_bits(tensor_->dtype) / 8;
  const std::uint64_t cols = matrix_cols(tensor_->shape);
  std::uint64_t element = position_ / size;
  while (!out.empty()) {
    const std::uint64_t row = element / cols, col = element % cols;
    if (!tile_.holds(row, col)) {
      if (const Status done = compute_tile(row, col); !done.ok()) return done;
    }
    const std::uint64_t at = (row - tile_.row) * tile_.cols + (col - tile_.col);
    // Tiles of several rows hold whole ones, which lie one behind the other.
    const std::uint64_t count = std::min<std::uint64_t>(out.size() / size, tile_.size() - at);
    std::memcpy(out.data(), storage_.data() + at * size, count * size);
    out = out.subspan(count * size);
    element += count;
  }
  return {};
}

/// The codes' own reader, and what scales them.
Status TensorReader::open_codes() {
  const AffineCodes& affine = *tensor_->place.affine;
  scales_ = {static_cast<double>(affine.scale)};
  zeros_ = {static_cast<double>(affine.zero)};
  if (affine.axis) {
    const std::uint64_t channels = tensor_->shape[*affine.axis];
    const auto load = [&](const StoredTensor& tensor, std::vector<double>& out) -> Status {
      const std::size_t size = dtype_bits(tensor.dtype) / 8;
      std::vector<std::byte> bytes(channels * size);
      TensorReader reader(*file_, tensor);
      if (Status read = reader.read(bytes); !read.ok()) return damaged(read.failure().message);
      out.resize(channels);
      for (std::uint64_t i = 0; i < channels; ++i) out[i] = number_at(tensor.dtype, bytes.data() + i * size);
      return {};
    };
    if (Status read = load(affine.scales, scales_); !read.ok()) return read;
    if (Status read = load(affine.zeros, zeros_); !read.ok()) return read;
  }
  codes_.emplace_back(*file_, affine.codes);
  return {};
}

/// The next bytes of a tensor of floats that codes stand for.
Status TensorReader::read_affine(std::span<std::byte> out) {
  const AffineCodes& affine = *tensor_->place.affine;
  if (codes_.empty()) {
    if (Status opened = open_codes(); !opened.ok()) return opened;
  }
  std::uint64_t inner = 1;  // elements of one channel that lie side by side
  for (std::size_t axis = affine.axis.value_or(0) + 1; affine.axis && axis < tensor_->shape.size(); ++axis)
    inner *= tensor_->shape[axis];
  const bool of_floats = !affine.axis || affine.zeros.dtype == DType::kF32;
  const std::size_t size = dtype_bits(affine.codes.dtype) / 8;
  std::uint64_t element = position_ / sizeof(float);
  for (std::vector<std::byte> bytes; !out.empty();) {
    const std::uint64_t count = std::min<std::uint64_t>(out.size() / sizeof(float), kInputPiece / size);
    bytes.resize(count * size);
    if (Status read = codes_.front().read(bytes); !read.ok()) return read;
    for (std::uint64_t i = 0; i < count; ++i, ++element) {
      const std::uint64_t channel = affine.axis ? element / inner % tensor_->shape[*affine.axis] : 0;
      const auto code = number_at(affine.codes.dtype, bytes.data() + i * size);
      const double steps = code - zeros_[channel];  // exact, but for zero points that are floats
      const float value = of_floats
                              ? (affine.axis ? static_cast<float>(code) - static_cast<float>(zeros_[channel])
                                             : static_cast<float>(steps)) *
                                    static_cast<float>(scales_[channel])
                              : static_cast<float>(steps * scales_[channel]);
      std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
    }
    out = out.subspan(count * sizeof(float));
  }
  return {};
}

Status TensorReader::read(std::span<std::byte> out) {
  if (out.empty()) return {};
  if (tensor_->place.coding == StorageCoding::kAffine) {
    const Status done = read_affine(out);
    if (done.ok()) position_ += out.size();
    return done;
  }
  if (tensor_->place.coding == StorageCoding::kComputed) {
    const Status done = read_computed(out);
    if (done.ok()) position_ += out.size();
    return done;
  }
  const bool by_rows = is_found_by_rows(tensor_->place);
  const Status done = by_rows                          ? read_rows(out)
                      : tensor_->place.strides.empty() ? read_in_order(out)
                                                       : gather(out);
  if (done.ok()) position_ += out.size();
  return done;
}

}  // namespace crumb
