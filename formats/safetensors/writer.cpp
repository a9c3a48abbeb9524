#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/checked_size.h"
#include "base/files/output_place.h"
#include "base/files/text.h"
#include "formats/safetensors/safetensors.h"

namespace crumb {
namespace {

std::string json_string(const std::string& text) {
  if (!is_utf8(text))
    throw Error("the name " + quote_text(text) + " is not UTF-8 and cannot stand in a safetensors file");
  return nlohmann::json(text).dump();
}

std::uint64_t size_of(const TensorDescription& tensor) {
  return tensor_byte_size(tensor.dtype, tensor.shape).take("tensor " + quote_text(tensor.name));
}

std::vector<TensorDescription> sorted(std::vector<TensorDescription> tensors) {
  sort_for_safetensors(tensors);
  return tensors;
}

}  // namespace

void sort_for_safetensors(std::vector<TensorDescription>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorDescription& a, const TensorDescription& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
}

std::string safetensors_header(const std::vector<TensorDescription>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  const auto separate = [&] {
    if (text.size() > 1) text += ',';
  };
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata)
      text += (text.back() == '{' ? "" : ",") + json_string(key) + ":" + json_string(value);
    text += '}';
  }
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const TensorDescription& tensor : tensors) {
    if (tensor.name == "__metadata__")
      throw Error("tensor '__metadata__' cannot be written: safetensors keeps that name for its metadata");
    if (!names.insert(tensor.name).second)
      throw Error("tensor " + quote_text(tensor.name) + " cannot be written: the name is taken");
    separate();
    text += json_string(tensor.name) + ":{\"dtype\":\"" + std::string(dtype_name(tensor.dtype)) +
            "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i)
      text += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
    text += "],\"data_offsets\":[" + std::to_string(offset) + ",";
    const checked::Size end = checked::add(offset, size_of(tensor));
    if (!end)
      throw Error("tensor " + quote_text(tensor.name) + " cannot be written: the file would pass 2^64 bytes");
    offset = *end;
    text += std::to_string(offset) + "]}";
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kSafetensorsMaxHeader)
    throw Error("a safetensors header of " + byte_text(text.size()) + " is too long; at most " +
                std::to_string(kSafetensorsMaxHeader) + " are legal");
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i)
    file[i] = static_cast<char>((std::uint64_t{text.size()} >> (8 * i)) & 255u);
  return file + text;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& target,
                                     std::vector<TensorDescription> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(sorted(std::move(tensors))), file_(target) {
  const std::string header = safetensors_header(tensors_, metadata);
  std::uint64_t bytes = header.size();
  for (const TensorDescription& tensor : tensors_) bytes += size_of(tensor);
  require_space(target, bytes, bytes);
  file_.append(header);
  if (!tensors_.empty()) missing_ = size_of(tensors_.front());
}

void SafetensorsWriter::skip_complete() {
  while (current_ < tensors_.size() && missing_ == 0)
    if (++current_ < tensors_.size()) missing_ = size_of(tensors_[current_]);
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> chunk) {
  if (chunk.empty()) return;
  skip_complete();
  if (current_ == tensors_.size() || tensors_[current_].name != name)
    throw Error("bytes of tensor " + quote_text(name) + " are not expected now: " +
                (current_ == tensors_.size() ? std::string("every tensor is complete")
                                             : "the turn is at " + quote_text(tensors_[current_].name)));
  if (chunk.size() > missing_)
    throw Error("tensor " + quote_text(name) + ": " + byte_text(chunk.size()) + " given where " +
                std::to_string(missing_) + " are missing");
  file_.append(chunk);
  missing_ -= chunk.size();
}

void SafetensorsWriter::commit() {
  skip_complete();
  if (current_ != tensors_.size())
    throw Error("tensor " + quote_text(tensors_[current_].name) + " is incomplete: " + byte_text(missing_) +
                " missing");
  file_.commit();
}

}  // namespace crumb
