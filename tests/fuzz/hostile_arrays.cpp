#include "tests/fuzz/hostile_arrays.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "formats/dtype.h"

namespace crumb::testing {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostData = 1 << 12;

std::vector<std::uint64_t> naturals(const Json& json) {
  std::vector<std::uint64_t> numbers;
  if (json.is_array())
    for (const Json& number : json)
      if (number.is_number_unsigned()) numbers.push_back(number.get<std::uint64_t>());
  return numbers;
}

std::uint64_t bits_of(const Json& tensor) {
  const std::optional<DType> dtype =
      tensor["dtype"].is_string() ? dtype_from_name(tensor["dtype"].get<std::string>()) : std::nullopt;
  return dtype ? dtype_bits(*dtype) : 8;
}

/// The size of a tensor modulo 2^64, as a reader that does not look would have it.
std::uint64_t wrapped_bytes(const Json& tensor) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : naturals(tensor["shape"])) count *= size;
  return count * bits_of(tensor) / 8;
}

void change(Json& tensor, std::uint64_t size, Random& random) {
  std::vector<std::uint64_t> shape = naturals(tensor["shape"]), offsets = naturals(tensor["data_offsets"]);
  switch (random.below(5)) {
    case 0:
      if (!shape.empty()) random.pick(shape) = hostile_number(random, size, random.pick(shape));
      break;
    case 1: shape.push_back(hostile_number(random, size, shape.empty() ? 1 : shape.back())); break;
    case 2:
      if (!offsets.empty()) random.pick(offsets) = hostile_number(random, size, random.pick(offsets));
      break;
    case 3:  // 2^64 bits more come to the same number of bits
      shape.resize(2 + random.below(3));
      wrap_product(random, shape,
                   random.below(64) * (random.one_in(2) ? 1 : hostile_number(random, size, 8)));
      break;
    default: tensor["dtype"] = std::string(kDTypes[random.below(kDTypes.size())].name);
  }
  tensor["shape"] = shape;
  tensor["data_offsets"] = offsets;
}

}  // namespace

std::string hostile_safetensors(std::string_view file, Random& random) {
  if (file.size() < 8) return {};
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  length = std::min<std::uint64_t>(length, file.size() - 8);
  const std::string_view data = file.substr(8 + length);
  Json header = Json::parse(file.substr(8, length), nullptr, false);
  if (header.is_discarded() || !header.is_object()) return {};

  std::vector<Json*> tensors;
  for (auto& [name, entry] : header.items())
    if (entry.is_object() && entry.contains("shape") && entry.contains("data_offsets") &&
        entry.contains("dtype"))
      tensors.push_back(&entry);
  if (tensors.empty()) return {};
  for (std::uint64_t changes = 1 + random.below(3); changes-- > 0;)
    change(*random.pick(tensors), file.size(), random);

  std::uint64_t end = 0;
  if (!random.one_in(4)) {
    for (Json* tensor : tensors) {
      const std::uint64_t begin = end;
      end += wrapped_bytes(*tensor);
      (*tensor)["data_offsets"] = {begin, end};
    }
    if (random.one_in(2)) {  // the last one ends where the data do
      end = std::min<std::uint64_t>(data.size(), kMostData);
      (*tensors.back())["data_offsets"][1] = end;
    }
  }
  const std::string text = header.dump();
  std::uint64_t stated = random.one_in(8) ? hostile_number(random, file.size(), text.size()) : text.size();
  std::string made(8, '\0');
  std::memcpy(made.data(), &stated, sizeof stated);
  made += text;
  made += data.substr(0, std::min<std::uint64_t>(data.size(), kMostData));
  if (end <= kMostData) made.resize(8 + text.size() + end, '\x5A');
  return made;
}

std::string hostile_npy(std::string_view file, Random& random) {
  if (file.size() < 12) return {};
  const std::size_t begin = file[6] == '\1' ? 10 : 12;
  const std::size_t end = std::min(file.find('\n', begin), file.size());
  std::string text(file.substr(begin, end - begin));
  const std::string_view data = file.substr(std::min(end + 1, file.size()));
  const std::size_t open = text.find('('), close = text.find(')', std::min(open, text.size()));
  if (open == std::string::npos || close == std::string::npos) return {};
  if (random.one_in(2)) {
    std::string inside = text.substr(open + 1, close - open - 1);
    if (!replace_decimals(random, inside, file.size()))
      inside = std::to_string(hostile_number(random, file.size(), 1)) + ",";
    text.replace(open + 1, close - open - 1, inside);
  } else {
    std::vector<std::uint64_t> shape(2 + random.below(3));
    // Elements of 1 to 8 bytes: the size in bytes, or in bits, comes to that of the data.
    const std::uint64_t wanted = (data.size() >> random.below(4)) + (random.next() << (61 + random.below(3)));
    wrap_product(random, shape, wanted);
    std::string inside;
    for (const std::uint64_t size : shape) inside += std::to_string(size) + ", ";
    text.replace(open + 1, close - open - 1, inside);
  }
  text += '\n';
  const std::uint64_t length =
      random.one_in(8) ? hostile_number(random, file.size(), text.size()) : text.size();
  std::string made(file.substr(0, begin));
  for (std::size_t i = 8; i < begin; ++i) made[i] = static_cast<char>(length >> (8 * (i - 8)) & 255u);
  return made + text + std::string(data);
}

}  // namespace crumb::testing
