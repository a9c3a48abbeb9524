#include "formats/gguf/writer.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>

#include "base/checked_size.h"
#include "base/files/counted.h"
#include "base/files/output_place.h"
#include "base/files/text.h"

namespace crumb {
namespace {

constexpr std::size_t kMostWrittenAxes = 4;
constexpr std::size_t kLongestWrittenName = 63;  // of tensors: GGML_MAX_NAME is 64, with a zero at the end

/// The header's bytes, front to back.
class HeaderText {
 public:
  template <class T>
  void number(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    text_.append(bytes, sizeof value);
  }
  void raw(std::string_view bytes) { text_ += bytes; }
  void text(std::string_view value) {
    number<std::uint64_t>(value.size());
    text_ += value;
  }
  void type(GgufValueType value) { number(static_cast<std::uint32_t>(value)); }

  void pad() { text_.resize((text_.size() + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment, '\0'); }
  const std::string& made() const { return text_; }

 private:
  std::string text_;
};

template <class T>
constexpr GgufValueType value_type_of() {
  if constexpr (std::is_same_v<T, std::uint32_t>) return GgufValueType::kU32;
  if constexpr (std::is_same_v<T, std::int32_t>) return GgufValueType::kI32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return GgufValueType::kU64;
  if constexpr (std::is_same_v<T, float>) return GgufValueType::kF32;
  if constexpr (std::is_same_v<T, bool>) return GgufValueType::kBool;
  return GgufValueType::kText;
}

template <class T>
void put_element(HeaderText& header, const T& value) {
  if constexpr (std::is_same_v<T, std::string>)
    header.text(value);
  else
    header.number(value);
}

void put_datum(HeaderText& header, const GgufDatum& datum) {
  std::visit(
      [&]<class T>(const T& value) {
        if constexpr (requires { typename T::allocator_type; } && !std::is_same_v<T, std::string>) {
          header.type(GgufValueType::kArray);
          header.type(value_type_of<typename T::value_type>());
          header.number<std::uint64_t>(value.size());
          for (const auto& element : value) put_element(header, element);
        } else {
          header.type(value_type_of<T>());
          put_element(header, value);
        }
      },
      datum);
}

void check_name(const std::string& what, const std::string& name, std::size_t longest,
                std::set<std::string>& seen) {
  const std::string subject = what + " " + quote_text(name);
  if (name.empty()) throw Error(what + " without a name cannot be written to GGUF");
  if (name.size() > longest)
    throw Error(subject + " has a name of " + byte_text(name.size()) + ", expected at most " +
                std::to_string(longest));
  if (!is_utf8(name)) throw Error(subject + ": its name is not UTF-8");
  if (!seen.insert(name).second) throw Error(subject + " occurs twice");
}

std::string header_of(const GgufPlan& plan) {
  HeaderText header;
  header.raw("GGUF");
  header.number<std::uint32_t>(3);
  header.number<std::uint64_t>(plan.tensors.size());
  header.number<std::uint64_t>(plan.metadata.size());
  std::set<std::string> keys, names;
  for (const GgufPair& pair : plan.metadata) {
    check_name("metadata", pair.key, kGgufLongestName, keys);
    header.text(pair.key);
    put_datum(header, pair.value);
  }
  std::uint64_t offset = 0;
  for (const GgufPlannedTensor& tensor : plan.tensors) {
    check_name("tensor", tensor.name, kLongestWrittenName, names);
    const std::string subject = "tensor " + quote_text(tensor.name);
    if (tensor.shape.size() > kMostWrittenAxes)
      throw Error(subject + " has " + count_text(tensor.shape.size(), "axis", "axes") +
                  ", expected at most " + std::to_string(kMostWrittenAxes));
    header.text(tensor.name);
    header.number(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) header.number(*size);
    header.number(tensor.type->number);
    header.number(offset);
    const std::uint64_t bytes = gguf_tensor_bytes(*tensor.type, tensor.shape).take(subject);
    const checked::Size next = checked::align_up(checked::add(offset, bytes), kGgufAlignment);
    if (!next) throw Error(subject + ": its data end beyond 2^64 bytes");
    offset = *next;
  }
  header.pad();
  return header.made();
}

}  // namespace

GgufWriter::GgufWriter(const std::filesystem::path& path, GgufPlan plan)
    : plan_(std::move(plan)), file_(path) {
  const std::string header = header_of(plan_);
  std::uint64_t bytes = header.size();
  for (const GgufPlannedTensor& tensor : plan_.tensors)
    bytes += gguf_tensor_bytes(*tensor.type, tensor.shape).take();
  require_space(path, bytes, bytes);
  file_.append(header);
  if (!plan_.tensors.empty())
    missing_ = gguf_tensor_bytes(*plan_.tensors[0].type, plan_.tensors[0].shape).take();
  skip_complete();
}

void GgufWriter::skip_complete() {
  while (current_ < plan_.tensors.size() && missing_ == 0) {
    file_.pad_to(kGgufAlignment);
    if (++current_ == plan_.tensors.size()) return;
    missing_ = gguf_tensor_bytes(*plan_.tensors[current_].type, plan_.tensors[current_].shape).take();
  }
}

void GgufWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (missing_ == 0) throw Error("more bytes are written to GGUF than were planned");
    const std::span<const std::byte> part = bytes.first(std::min<std::uint64_t>(bytes.size(), missing_));
    file_.append(part);
    missing_ -= part.size();
    bytes = bytes.subspan(part.size());
    skip_complete();
  }
}

std::uint64_t GgufWriter::finish(const std::function<void(const std::filesystem::path& written)>& check) {
  if (current_ < plan_.tensors.size())
    throw Error("tensor " + quote_text(plan_.tensors[current_].name) + ": " + byte_text(missing_) +
                " were not written");
  if (check) check(file_.partial_path());
  file_.commit();
  return file_.size();
}

}  // namespace crumb
