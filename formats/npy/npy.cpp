#include "formats/npy/npy.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/checked_size.h"
#include "base/files/counted.h"
#include "base/files/mapped_file.h"
#include "base/files/output_file.h"
#include "base/files/text.h"

namespace crumb {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMaxHeader = std::uint64_t{64} << 10;

/// The small part of Python's literals that a header is made of. After a failure every answer is empty and
/// why() tells.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool expect(char c) { return take(c) || refuse(std::string("'") + c + "'"); }

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }

  bool string(std::string& out) {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return refuse("a string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return refuse("a string that ends");
    out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }

  bool boolean(bool& out) {
    skip_space();
    for (const auto& [word, value] :
         {std::pair{std::string_view("True"), true}, {std::string_view("False"), false}}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      out = value;
      at_ += word.size();
      return true;
    }
    return refuse("True or False");
  }

  bool number(std::uint64_t& out) {
    skip_space();
    const std::size_t begin = at_;
    checked::Size value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = checked::add(checked::multiply(value, 10), text_[at_] - '0');
      if (!value) return refuse("a size below 2^64");
    }
    if (at_ == begin) return refuse("a size");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote long integers
    out = *value;
    return true;
  }

  bool refuse(const std::string& expected) {
    if (why_.empty()) why_ = "expected " + expected + " at byte " + std::to_string(at_) + " of the header";
    return false;
  }

  const std::string& why() const { return why_; }

 private:
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string why_;
};

bool read_shape(LiteralReader& reader, std::vector<std::uint64_t>& shape) {
  if (!reader.expect('(')) return false;
  while (!reader.take(')')) {
    if (shape.size() == kMaxNpyRank)
      return reader.refuse("at most " + std::to_string(kMaxNpyRank) + " sizes");
    std::uint64_t size = 0;
    if (!reader.number(size)) return false;
    shape.push_back(size);
    if (reader.take(',')) continue;
    // (3) is a number in Python, not a shape.
    if (shape.size() == 1) return reader.refuse("','");
    return reader.expect(')');
  }
  return true;
}

/// What arrays of a type that is none of ours hold, for messages.
std::string foreign_text(const std::string& descr) {
  constexpr std::pair<char, std::string_view> kKinds[] = {
      {'O', "Python objects"}, {'S', "byte strings"},
      {'U', "strings"},        {'M', "dates"},
      {'m', "spans of time"},  {'c', "other complex numbers"},
      {'f', "other floats"},   {'V', "raw bytes, as bfloat16 and float8 come out of NumPy"},
  };
  const char kind = descr.size() < 2 ? '\0' : descr[1];
  for (const auto& [letter, words] : kKinds)
    if (letter == kind) return std::string(words) + " (" + quote_text(descr) + ")";
  return "elements of the unknown type " + quote_text(descr);
}

void apply_descr(const std::string& descr, NpyHeader& header) {
  constexpr std::string_view kOrders = "<>|=";
  if (descr.size() >= 2 && kOrders.find(descr[0]) != std::string_view::npos) {
    for (const DTypeInfo& info : kDTypes) {
      if (info.numpy.empty() || info.numpy != descr.substr(1)) continue;
      if (descr[0] == '|' && info.bits > 8) break;
      header.dtype = info.dtype;
      header.big_endian = descr[0] == '>' && info.bits > 8;
      return;
    }
  }
  header.foreign = foreign_text(descr);
}

/// Stops where the element type turns out to be none of ours.
Status read_header_dict(std::string_view text, NpyHeader& header) {
  LiteralReader reader(text);
  bool descr_seen = false;
  bool order_seen = false;
  bool shape_seen = false;
  const auto damaged = [&] { return Failure{"the .npy header is damaged: " + reader.why()}; };
  if (!reader.expect('{')) return damaged();
  while (!reader.take('}')) {
    std::string key;
    if (!reader.string(key) || !reader.expect(':')) return damaged();
    bool* seen = key == "descr"           ? &descr_seen
                 : key == "fortran_order" ? &order_seen
                 : key == "shape"         ? &shape_seen
                                          : nullptr;
    if (seen == nullptr) return Failure{"the .npy header is damaged: unknown key " + quote_text(key)};
    if (std::exchange(*seen, true))
      return Failure{"the .npy header is damaged: the key " + quote_text(key) + " occurs twice"};
    if (key == "descr") {
      std::string descr;
      if (reader.take('['))
        header.foreign = "records (a structured 'descr')";
      else if (!reader.string(descr))
        return damaged();
      else
        apply_descr(descr, header);
      if (!header.foreign.empty()) return {};
    } else if (key == "fortran_order" ? !reader.boolean(header.fortran_order)
                                      : !read_shape(reader, header.shape)) {
      return damaged();
    }
    if (reader.take(',')) continue;
    if (!reader.expect('}')) return damaged();
    break;
  }
  if (!reader.at_end()) {
    reader.refuse("nothing more");
    return damaged();
  }
  for (const auto& [key, seen] :
       {std::pair{"descr", descr_seen}, {"fortran_order", order_seen}, {"shape", shape_seen}})
    if (!seen) return Failure{std::string("the .npy header is damaged: '") + key + "' is missing"};
  return {};
}

/// Copies a column-major array of elements into row-major order.
void to_row_major(std::span<const std::byte> from, std::span<const std::uint64_t> shape, std::size_t element,
                  std::span<std::byte> to) {
  std::vector<std::uint64_t> index(shape.size(), 0);
  std::vector<std::uint64_t> stride(shape.size(), element);
  for (std::size_t axis = 1; axis < shape.size(); ++axis) stride[axis] = stride[axis - 1] * shape[axis - 1];
  std::uint64_t source = 0;
  for (std::uint64_t target = 0; target < to.size(); target += element) {
    std::memcpy(&to[target], &from[source], element);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      source += stride[axis];
      if (++index[axis] < shape[axis]) break;
      source -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

std::string cut_short(std::uint64_t missing, const std::string& of) {
  return "the file is cut short: " + byte_text(missing) + " missing of the " + of;
}

/// Complex numbers are two numbers, each with its own byte order.
void swap_bytes(std::span<std::byte> data, std::size_t word) {
  for (std::size_t i = 0; i < data.size(); i += word) std::reverse(&data[i], &data[i] + word);
}

}  // namespace

bool looks_like_npy(std::span<const std::byte> start) {
  return start.size() >= kMagic.size() && std::memcmp(start.data(), kMagic.data(), kMagic.size()) == 0;
}

Result<std::uint64_t> npy_header_bytes(std::span<const std::byte> start, std::uint64_t total) {
  if (!looks_like_npy(start)) return Failure{"this is not a .npy file: it does not begin with \\x93NUMPY"};
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint64_t>(start[i]); };
  if (start.size() < 10) return Failure{cut_short(10 - start.size(), "header")};
  const std::uint64_t major = byte(6);
  if (major < 1 || major > 3 || byte(7) != 0)
    return Failure{"unknown .npy version " + std::to_string(major) + "." + std::to_string(byte(7)) +
                   ", expected 1.0, 2.0 or 3.0"};
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  const std::size_t text_offset = 8 + length_bytes;
  if (start.size() < text_offset) return Failure{cut_short(text_offset - start.size(), "header")};
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= byte(8 + i) << (8 * i);
  if (length > kMaxHeader)
    return Failure{"the .npy header length is " + std::to_string(length) + ", at most " +
                   std::to_string(kMaxHeader) + " is accepted"};
  const std::uint64_t header = text_offset + length;  // at most 12 and kMaxHeader
  if (header > total) return Failure{cut_short(header - total, "header")};
  return header;
}

Result<NpyHeader> parse_npy_header(std::span<const std::byte> start, std::uint64_t total) {
  const Result<std::uint64_t> data_offset = npy_header_bytes(start, total);
  if (!data_offset.ok()) return data_offset.failure();
  NpyHeader header;
  header.data_offset = data_offset.value();
  if (start.size() < header.data_offset)
    return Failure{cut_short(header.data_offset - start.size(), "header")};
  const std::size_t text_offset = std::to_integer<unsigned>(start[6]) == 1 ? 10 : 12;
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + text_offset,
                              header.data_offset - text_offset);
  if (const Status read = read_header_dict(text, header); !read.ok()) return read.failure();
  if (!header.foreign.empty()) return header;
  const Result<std::uint64_t> size = tensor_byte_size(header.dtype, header.shape);
  if (!size.ok()) return size.failure();
  header.data_bytes = size.value();
  const std::uint64_t held = total - header.data_offset;
  if (header.data_bytes > held)
    return Failure{cut_short(header.data_bytes - held, byte_text(header.data_bytes) + " that " +
                                                           shape_text(header.shape) + " of " +
                                                           std::string(dtype_name(header.dtype)) + " takes")};
  if (header.data_bytes < held)
    return Failure{follow_text(held - header.data_bytes, "byte") +
                   " the array, expected the end of the file"};
  return header;
}

Result<NpyHeader> parse_npy_header(std::span<const std::byte> file) {
  Result<NpyHeader> header = parse_npy_header(file, file.size());
  if (header.ok() && !header.value().foreign.empty())
    return Failure{"an array of " + header.value().foreign +
                   " is not supported, expected booleans, integers or floats such as '<f4'"};
  return header;
}

Result<NpyArray> parse_npy(std::span<const std::byte> file) {
  Result<NpyHeader> parsed = parse_npy_header(file);
  if (!parsed.ok()) return parsed.failure();
  NpyHeader& header = parsed.value();
  const std::span<const std::byte> data = file.subspan(header.data_offset, header.data_bytes);
  const std::size_t element = dtype_bits(header.dtype) / 8;
  NpyArray array{header.dtype, std::move(header.shape), std::vector<std::byte>(data.size())};
  if (header.fortran_order && array.shape.size() > 1)
    to_row_major(data, array.shape, element, array.data);
  else
    std::copy(data.begin(), data.end(), array.data.begin());
  if (header.big_endian) swap_bytes(array.data, array.dtype == DType::kC64 ? 4 : element);
  return array;
}

Result<NpyArray> read_npy(const std::filesystem::path& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return file.failure();
  Result<NpyArray> array = parse_npy(file.value().bytes());
  if (!array.ok()) return Failure{quote_text(path.native()) + ": " + array.failure().message};
  return array;
}

std::vector<float> NpyArray::to_floats() const {
  std::vector<float> floats(data.size() / (dtype_bits(dtype) / 8));
  widen_to_float(dtype, data, floats);
  return floats;
}

std::string npy_header(DType dtype, std::span<const std::uint64_t> shape) {
  const DTypeInfo& info = dtype_info(dtype);
  if (info.numpy.empty()) throw Error("numpy has no type for " + std::string(info.name));
  if (shape.size() > kMaxNpyRank)
    throw Error("numpy has no arrays of " + std::to_string(shape.size()) + " axes, at most " +
                std::to_string(kMaxNpyRank));
  std::string dict = std::string("{'descr': '") + (info.bits > 8 ? '<' : '|') + std::string(info.numpy) +
                     "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i)
    dict += (i == 0 ? "" : ", ") + std::to_string(shape[i]) + (shape.size() == 1 ? "," : "");
  dict += "), }";
  const std::size_t before = kMagic.size() + 4;
  dict.resize((before + dict.size() + 1 + 63) / 64 * 64 - before - 1, ' ');
  dict += '\n';
  std::string header(kMagic);
  header += {'\1', '\0', static_cast<char>(dict.size() & 255u), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

void write_npy(const std::filesystem::path& path, DType dtype, std::span<const std::uint64_t> shape,
               std::span<const std::byte> data) {
  const std::string where = "cannot write " + quote_text(path.native());
  const std::uint64_t bytes = tensor_byte_size(dtype, shape).take(where);
  if (bytes != data.size())
    throw Error(where + ": " + byte_text(data.size()) + " given for the " + byte_text(bytes) +
                " of the shape " + shape_text(shape));
  const std::string header = npy_header(dtype, shape);
  OutputFile file(path);
  file.append(header);
  file.append(data);
  file.commit();
}

void write_npy(const std::filesystem::path& path, std::span<const float> values, std::uint64_t rows,
               std::uint64_t cols) {
  const std::uint64_t shape[] = {rows, cols};
  write_npy(path, DType::kF32, shape, std::as_bytes(values));
}

}  // namespace crumb
