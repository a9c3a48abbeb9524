#include <algorithm>
#include <bitset>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/checked_size.h"
#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "formats/safetensors/safetensors.h"

namespace crumb {
namespace {

using nlohmann::json;

/// For the list of tensors and the metadata; the parser's own buffers come on top.
constexpr std::uint64_t kListMemory = std::uint64_t{40} << 20;

/// Turns the parser's events into tensors, without a document in between. `offset` and `bytes` hold
/// data_offsets' begin and end until check_layout.
class HeaderHandler : public nlohmann::json_sax<json> {
 public:
  explicit HeaderHandler(SafetensorsHeader& header) : header_(header) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override { return unexpected(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return unexpected(text); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (where_ == Where::kShape) {
      if (!spend(2 * sizeof(std::uint64_t))) return false;
      tensor().shape.push_back(value);
      return true;
    }
    if (where_ == Where::kOffsets) {
      if (offsets_ == 2) return refuse(subject() + ": 'data_offsets' holds more than two numbers");
      (offsets_++ == 0 ? tensor().offset : tensor().bytes) = value;
      return true;
    }
    return unexpected(std::to_string(value));
  }

  bool string(string_t& value) override {
    if (where_ == Where::kMetadata) {
      if (!spend(value.size())) return false;
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (where_ != Where::kTensor || key_ != "dtype") return unexpected(quote_text(value));
    const std::optional<DType> dtype = dtype_from_name(value);
    if (!dtype) return refuse(subject() + ": unknown dtype " + quote_text(value));
    tensor().dtype = *dtype;
    return true;
  }

  bool start_object(std::size_t) override {
    if (where_ == Where::kStart) {
      where_ = Where::kRoot;
      return true;
    }
    if (where_ != Where::kRoot) return unexpected("an object");
    where_ = key_ == "__metadata__" ? Where::kMetadata : Where::kTensor;
    if (where_ == Where::kMetadata) return true;
    if (!spend(sizeof(SafetensorsTensor) + key_.size() + 64)) return false;
    seen_.reset();
    offsets_ = 0;
    header_.tensors.emplace_back().name = std::move(key_);
    return true;
  }

  bool end_object() override {
    if (where_ == Where::kTensor) {
      for (std::size_t i = 0; i < kFields.size(); ++i)
        if (!seen_[i]) return refuse(subject() + ": " + quote_text(kFields[i]) + " is missing");
    }
    where_ = where_ == Where::kRoot ? Where::kEnd : Where::kRoot;
    return true;
  }

  bool start_array(std::size_t) override {
    if (where_ == Where::kTensor && key_ == "shape")
      where_ = Where::kShape;
    else if (where_ == Where::kTensor && key_ == "data_offsets")
      where_ = Where::kOffsets;
    else
      return unexpected("an array");
    return true;
  }

  bool end_array() override {
    if (where_ == Where::kOffsets && offsets_ != 2)
      return refuse(subject() + ": 'data_offsets' holds " + count_text(offsets_, "number") +
                    ", expected begin and end");
    where_ = Where::kTensor;
    return true;
  }

  bool key(string_t& name) override {
    if (where_ == Where::kMetadata) {
      if (!spend(name.size() + 160)) return false;
      if (header_.metadata.contains(name))
        return refuse("the key " + quote_text(name) + " occurs twice in '__metadata__'");
      header_.metadata[name];
    } else if (where_ == Where::kRoot) {
      if (name == "__metadata__" && std::exchange(metadata_seen_, true))
        return refuse("'__metadata__' occurs twice");
    } else {
      const auto field = std::find(kFields.begin(), kFields.end(), name);
      if (field == kFields.end())
        return refuse(subject() + ": unknown key " + quote_text(name) +
                      ", expected 'dtype', 'shape' and 'data_offsets'");
      const auto index = static_cast<std::size_t>(field - kFields.begin());
      if (seen_[index]) return refuse(subject() + ": " + quote_text(name) + " occurs twice");
      seen_[index] = true;
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
    return refuse(json_error_text(position, error.what()));
  }

  const std::string& why() const { return why_; }

 private:
  enum class Where { kStart, kRoot, kMetadata, kTensor, kShape, kOffsets, kEnd };
  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

  SafetensorsTensor& tensor() { return header_.tensors.back(); }

  std::string subject() const {
    if (where_ == Where::kMetadata) return "'__metadata__'";
    if (where_ == Where::kTensor || where_ == Where::kShape || where_ == Where::kOffsets)
      return "tensor " + quote_text(header_.tensors.back().name);
    return "the header";
  }

  bool unexpected(const std::string& found) {
    switch (where_) {
      case Where::kStart:
      case Where::kEnd: return refuse("expected one JSON object, found " + found);
      case Where::kRoot:
        return refuse("entry " + quote_text(key_) +
                      ": expected an object with dtype, shape and data_offsets, found " + found);
      case Where::kMetadata:
        return refuse("'__metadata__' entry " + quote_text(key_) + ": expected a string, found " + found);
      case Where::kTensor:
        return refuse(subject() + ": " + quote_text(key_) + " is " + found + ", expected " +
                      (key_ == "dtype" ? "a string" : "an array of numbers"));
      case Where::kShape:
      case Where::kOffsets: break;
    }
    return refuse(subject() + ": " + quote_text(key_) + " holds " + found +
                  ", expected whole numbers from 0 to 18446744073709551615");
  }

  bool refuse(const std::string& why) {
    if (why_.empty()) why_ = why;
    return false;
  }

  bool spend(std::uint64_t bytes) {
    spent_ += bytes;
    return spent_ <= kListMemory ||
           refuse("it describes more than " + byte_text(kListMemory) + " of memory can list");
  }

  SafetensorsHeader& header_;
  std::uint64_t spent_ = 0;
  Where where_ = Where::kStart;
  std::string key_;
  std::bitset<3> seen_;
  unsigned offsets_ = 0;
  bool metadata_seen_ = false;
  std::string why_;
};

/// How many tensors a header can hold: one per "data_offsets" in it, and not more than can be listed.
std::size_t count_tensors(std::string_view header) {
  constexpr std::string_view kMark = "\"data_offsets\"";
  std::size_t count = 0;
  for (std::size_t at = header.find(kMark); at != std::string_view::npos;
       at = header.find(kMark, at + kMark.size()))
    ++count;
  return std::min<std::size_t>(count, kListMemory / sizeof(SafetensorsTensor));
}

Status check_names(const std::vector<SafetensorsTensor>& tensors) {
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return tensors[a].name < tensors[b].name; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (tensors[order[i - 1]].name == tensors[order[i]].name)
      return Failure{"tensor " + quote_text(tensors[order[i]].name) + " occurs twice"};
  return {};
}

/// From here on `offset` is from the start of the file and `bytes` a size.
Status check_layout(std::vector<SafetensorsTensor>& tensors, std::uint64_t data_offset, std::uint64_t held) {
  for (SafetensorsTensor& tensor : tensors) {
    const std::string subject = "tensor " + quote_text(tensor.name) + ": ";
    const std::string offsets =
        "data_offsets [" + std::to_string(tensor.offset) + ", " + std::to_string(tensor.bytes) + "]";
    if (tensor.bytes < tensor.offset) return Failure{subject + offsets + " end before they begin"};
    const Result<std::uint64_t> size = tensor_byte_size(tensor.dtype, tensor.shape);
    if (!size.ok()) return Failure{subject + size.failure().message};
    if (tensor.bytes - tensor.offset != size.value())
      return Failure{subject + offsets + " hold " + byte_text(tensor.bytes - tensor.offset) + ", but " +
                     std::string(dtype_name(tensor.dtype)) + " " + shape_text(tensor.shape) + " takes " +
                     std::to_string(size.value())};
    tensor.bytes = size.value();
  }
  std::sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  std::uint64_t end = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.offset != end)
      return Failure{"tensor " + quote_text(tensor.name) + " begins at data offset " +
                     std::to_string(tensor.offset) + ", expected " + std::to_string(end) +
                     ", where the tensor before it ends (" +
                     (tensor.offset < end ? "they overlap" : "there is a hole") + ")"};
    const checked::Size next = checked::add(end, tensor.bytes);
    if (!next) return Failure{"tensor " + quote_text(tensor.name) + " ends beyond 2^64 bytes of data"};
    end = *next;
  }
  if (end > held)
    return Failure{"the file is cut short: " + byte_text(end - held) + " missing of the " + byte_text(end) +
                   " of data that its header describes"};
  if (end < held)
    return Failure{byte_text(held - end) +
                   " at the end of the file belong to no tensor (the header describes " + byte_text(end) +
                   " of data)"};
  for (SafetensorsTensor& tensor : tensors) tensor.offset += data_offset;
  return {};
}

std::uint64_t header_length(std::span<const std::byte> start) {
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), sizeof length);
  return length;
}

}  // namespace

bool looks_like_safetensors(std::span<const std::byte> start) {
  if (start.size() < 9 || start[8] != std::byte{'{'}) return false;
  const std::uint64_t length = header_length(start);
  return length >= 2 && length <= kSafetensorsMaxHeader;
}

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file) {
  if (file.size() < 8)
    return Failure{"the file is cut short: it holds " + byte_text(file.size()) +
                   ", a safetensors file begins with 8 bytes of header length"};
  const std::uint64_t length = header_length(file);
  const std::uint64_t rest = file.size() - 8;
  if (length > kSafetensorsMaxHeader)
    return Failure{"the header length at byte 0 is " + std::to_string(length) + ", at most " +
                   std::to_string(kSafetensorsMaxHeader) +
                   " is legal: this is not a safetensors file, or it is damaged"};
  if (length < 2)
    return Failure{"the header length at byte 0 is " + std::to_string(length) +
                   ", the shortest header takes 2 bytes"};
  if (rest > 0 && file[8] != std::byte{'{'})
    return Failure{"the header at byte 8 begins with " +
                   quote_text({reinterpret_cast<const char*>(&file[8]), 1}) + ", expected '{'"};
  if (length > rest)
    return Failure{"the file is cut short or its header length is damaged: the header takes " +
                   byte_text(length) + ", of which " + byte_text(length - rest) +
                   (length - rest == 1 ? " is" : " are") + " missing"};

  const std::span<const std::byte> text = file.subspan(8, length);
  const char* chars = reinterpret_cast<const char*>(text.data());
  JsonLimits limits;
  const auto in_header = [](const std::string& why) {
    return Failure{"the safetensors header (from byte 8 on) is damaged: " + why};
  };
  if (const Status tokens = check_json_tokens(text, limits.max_token_bytes, 4); !tokens.ok())
    return in_header(tokens.failure().message);

  SafetensorsHeader header;
  header.data_offset = 8 + length;
  header.tensors.reserve(count_tensors({chars, text.size()}));
  HeaderHandler handler(header);
  try {
    if (!json::sax_parse(chars, chars + text.size(), &handler)) return in_header(handler.why());
  } catch (const json::exception& error) {
    return in_header(json_error_text(0, error.what()));
  }
  if (const Status names = check_names(header.tensors); !names.ok())
    return in_header(names.failure().message);
  if (const Status layout = check_layout(header.tensors, header.data_offset, rest - length); !layout.ok())
    return layout.failure();
  return header;
}

}  // namespace crumb
