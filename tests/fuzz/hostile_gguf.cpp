#include "tests/fuzz/hostile_gguf.h"

#include <algorithm>
#include <array>
#include <vector>

#include "formats/gguf/gguf.h"

namespace crumb::testing {
namespace {

constexpr std::uint64_t kMostData = 1 << 13;

/// Names that a reader does something about.
constexpr std::array<std::string_view, 10> kNames = {
    "blk.0.attn_q.weight",      "blk.0.attn_k.weight",      "blk.1.attn_q.bias", "output_norm.weight",
    "token_embd.weight",        "blk.0.attn_norm.weight",   "output.weight",     "rope_freqs.weight",
    "rope_factors_long.weight", "rope_factors_short.weight"};

struct Entry {
  std::string key;
  std::uint32_t type;
  std::string value;  ///< as it is written
};

struct Tensor {
  std::string name;
  std::vector<std::uint64_t> sizes;  ///< innermost first
  std::uint32_t type;
  std::uint64_t offset;
};

struct Parts {
  std::vector<Entry> entries;
  std::vector<Tensor> tensors;
  std::string data;
  std::uint64_t alignment;
};

void put(std::string& text, std::uint64_t number, std::size_t bytes = 8) {
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 255u);
}

void replace_number(std::string& text, std::size_t at, std::size_t bytes, std::uint64_t number) {
  if (at + bytes > text.size()) return;
  std::string made;
  put(made, number, bytes);
  text.replace(at, bytes, made);
}

std::string_view characters(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Parts parts_of(const GgufHeader& header, std::string_view file) {
  Parts parts;
  parts.alignment = header.alignment;
  for (const GgufEntry& entry : header.metadata) {
    std::string value;
    if (entry.value.type == GgufValueType::kText) put(value, entry.value.bytes.size());
    if (entry.value.type == GgufValueType::kArray) {
      put(value, static_cast<std::uint32_t>(entry.value.element), 4);
      put(value, entry.value.count);
    }
    value += characters(entry.value.bytes);
    parts.entries.push_back(
        {std::string(entry.key), static_cast<std::uint32_t>(entry.value.type), std::move(value)});
  }
  for (const GgufTensor& tensor : header.tensors)
    parts.tensors.push_back({tensor.name,
                             {tensor.shape.rbegin(), tensor.shape.rend()},
                             tensor.type->number,
                             tensor.offset - std::min(tensor.offset, header.data_offset)});
  parts.data = file.substr(std::min<std::uint64_t>(header.data_offset, file.size()), kMostData);
  return parts;
}

void change_entry(Parts& parts, std::uint64_t size, Random& random) {
  const std::size_t chosen = random.below(parts.entries.size());
  Entry& entry = parts.entries[chosen];
  const std::size_t bytes = entry.value.size();
  switch (random.below(6)) {
    case 0:
      replace_number(entry.value, 0, std::min<std::size_t>(bytes, 8), hostile_number(random, size, 1));
      break;
    case 1: entry.type = static_cast<std::uint32_t>(random.below(14)); break;
    case 2:
      replace_number(entry.value, 4, 8, hostile_number(random, size, 8));
      break;  // of an array, its length
    case 3: parts.entries.erase(parts.entries.begin() + static_cast<std::ptrdiff_t>(chosen)); break;
    case 4: replace_number(entry.value, random.below(bytes), 1, random.next()); break;
    default: replace_number(entry.value, 0, std::min<std::size_t>(bytes, 4), random.below(70));
  }
}

void change_tensor(Tensor& tensor, std::uint64_t size, Random& random) {
  const auto types = ggml_types();
  switch (random.below(7)) {
    case 0:
      if (!tensor.sizes.empty()) random.pick(tensor.sizes) = hostile_number(random, size, tensor.sizes[0]);
      break;
    case 1: tensor.sizes.push_back(hostile_number(random, size, 1)); break;
    case 2: tensor.type = random.pick(types).number; break;
    case 3:
      tensor.sizes.resize(2 + random.below(3));
      wrap_product(random, tensor.sizes, random.below(64) * hostile_number(random, size, 8));
      break;
    case 4: tensor.offset = hostile_number(random, size, tensor.offset); break;
    case 5: tensor.name = random.pick(kNames); break;
    default: {  // sound again
      const GgmlType& type = random.pick(types);
      tensor.type = type.number;
      tensor.sizes = {type.block_elements * random.below(4), 2 * random.below(4)};
    }
  }
}

/// The size of a tensor modulo 2^64, as a reader that does not look would have it.
std::uint64_t wrapped_bytes(const Tensor& tensor) {
  const GgmlType* type = find_ggml_type(tensor.type);
  std::uint64_t count = 1;
  for (const std::uint64_t size : tensor.sizes) count *= size;
  return type == nullptr ? count : count / type->block_elements * type->block_bytes;
}

std::string written(const Parts& parts, std::uint64_t entries) {
  std::string file = "GGUF";
  put(file, 3, 4);
  put(file, parts.tensors.size());
  put(file, entries);
  for (const Entry& entry : parts.entries) {
    put(file, entry.key.size());
    file += entry.key;
    put(file, entry.type, 4);
    file += entry.value;
  }
  for (const Tensor& tensor : parts.tensors) {
    put(file, tensor.name.size());
    file += tensor.name;
    put(file, tensor.sizes.size(), 4);
    for (const std::uint64_t size : tensor.sizes) put(file, size);
    put(file, tensor.type, 4);
    put(file, tensor.offset);
  }
  const std::uint64_t alignment = std::min(parts.alignment, kMostData);
  file.resize((file.size() + alignment - 1) / alignment * alignment);
  return file + parts.data;
}

}  // namespace

std::string hostile_gguf(std::string_view file, Random& random) {
  const Result<GgufHeader> header = parse_gguf(std::as_bytes(std::span(file)));
  if (!header.ok()) return {};
  Parts parts = parts_of(header.value(), file);
  for (std::uint64_t changes = 1 + random.below(3); changes-- > 0;) {
    if (!parts.entries.empty() && random.one_in(2)) change_entry(parts, file.size(), random);
    if (!parts.tensors.empty() && random.one_in(2))
      change_tensor(random.pick(parts.tensors), file.size(), random);
  }
  std::uint64_t end = 0;
  if (!random.one_in(4)) {
    for (Tensor& tensor : parts.tensors) {
      tensor.offset = end;
      end += (wrapped_bytes(tensor) + parts.alignment - 1) / parts.alignment * parts.alignment;
    }
  }
  if (end <= kMostData && !random.one_in(8)) parts.data.resize(end, '\x3A');
  const std::uint64_t entries = parts.entries.size();
  return written(parts, random.one_in(16) ? hostile_number(random, file.size(), entries) : entries);
}

}  // namespace crumb::testing
