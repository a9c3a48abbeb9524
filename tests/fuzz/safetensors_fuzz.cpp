// safetensors: what is listed covers the data exactly, and the writer's header for it reads back the same.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "formats/safetensors/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile_arrays.h"

namespace crumb::testing {
namespace {

void check(std::span<const std::byte> file) {
  const Result<SafetensorsHeader> parsed = parse_safetensors(file);
  if (!is_ok(parsed)) return;
  const SafetensorsHeader& header = parsed.value();
  require(looks_like_safetensors(file), "what parses looks like safetensors");

  std::uint64_t end = header.data_offset;
  std::set<std::string_view> names;
  std::vector<TensorDescription> tensors;
  for (const SafetensorsTensor& tensor : header.tensors) {
    require(tensor.offset == end, "tensors follow one another");
    require(is_exact_size(tensor.dtype, tensor.shape, tensor.bytes),
            "a tensor's bytes are what its shape takes");
    require(names.insert(tensor.name).second, "names are unique");
    end += tensor.bytes;
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  require(end == file.size(), "tensors cover the file");

  std::string again = safetensors_header(tensors, header.metadata);
  const std::size_t data_offset = again.size();
  again += text_of(file.subspan(header.data_offset));
  const SafetensorsHeader same = require_ok(parse_safetensors(bytes_of(again)), "what was written is read");
  require(same.metadata == header.metadata && same.data_offset == data_offset &&
              same.tensors.size() == header.tensors.size(),
          "metadata and tensors are written");
  for (const SafetensorsTensor& tensor : same.tensors) {
    // Empty tensors have the offset of what follows them, and may change places with each other.
    const auto first = std::ranges::find(header.tensors, tensor.name, &SafetensorsTensor::name);
    require(first != header.tensors.end() && first->dtype == tensor.dtype && first->shape == tensor.shape &&
                first->offset - header.data_offset == tensor.offset - data_offset,
            "a tensor reads back the same");
  }
}

/// The input with a header length that reaches to its last brace, and as much data as the header describes:
/// what a change of the text would otherwise end at.
std::string made_consistent(std::string_view input) {
  if (input.size() < 8) return {};
  const std::size_t brace = input.rfind('}');
  const std::string_view text = input.substr(8, brace == std::string_view::npos || brace < 8 ? 0 : brace - 7);
  std::uint64_t end = 0;
  for (std::size_t at = 0; (at = text.find("\"data_offsets\":[", at)) != std::string_view::npos;) {
    at = std::min(text.find(',', at), text.size() - 1) + 1;
    std::uint64_t number = 0;
    std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (number <= 4096) end = std::max(end, number);
  }
  const std::uint64_t length = text.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  file += text;
  file += input.substr(8 + text.size());
  file.resize(8 + text.size() + end, '\x5A');
  return file;
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  check(input);
  if (const std::string mended = made_consistent(text_of(input)); mended != text_of(input))
    check(bytes_of(mended));
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_safetensors, data, size, most, seed);
}
