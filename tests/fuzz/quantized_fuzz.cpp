// Checkpoints that other tools quantized: what their configuration and tensors say, parted by the byte 1E: the configuration
// (JSON), the tensors ([[name, dtype, shape], ...]), and the bytes that they hold, one tensor behind the other. What is read
// has the size that its shape takes, and pieces of it are those of the whole.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/checked_size.h"
#include "base/json/bounded_json.h"
#include "formats/checkpoint/quantized/dequantized_model.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile.h"

namespace crumb::testing {
namespace {

constexpr char kSeparator = '\x1E';
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 16;  // of all stored tensors
constexpr std::uint64_t kMostRead = std::uint64_t{1} << 20;   // of a matrix

std::string_view take_part(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(kSeparator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

/// The tensors of a list, where they fit the limit; their names are unique and they lie one behind the other.
std::optional<std::vector<TensorEntry>> listed_tensors(const nlohmann::json& list) {
  std::vector<TensorEntry> tensors;
  std::uint64_t end = 0;
  if (!list.is_array()) return std::nullopt;
  for (const nlohmann::json& row : list) {
    if (!row.is_array() || row.size() != 3 || !row[0].is_string() || !row[1].is_string() ||
        !row[2].is_array())
      return std::nullopt;
    TensorEntry& tensor = tensors.emplace_back();
    tensor.name = row[0].get<std::string>();
    const auto dtype = dtype_from_name(row[1].get<std::string>());
    if (!dtype) return std::nullopt;
    tensor.dtype = *dtype;
    for (const nlohmann::json& size : row[2]) {
      if (!size.is_number_unsigned()) return std::nullopt;
      tensor.shape.push_back(size.get<std::uint64_t>());
    }
    const auto bytes = tensor_byte_size(tensor.dtype, tensor.shape);
    if (!bytes.ok() || bytes.value() > kMostBytes - end) return std::nullopt;
    tensor.bytes = tensor.place.stored = tensor.place.decoded = bytes.value();
    tensor.place.offset = end;
    end += bytes.value();
  }
  std::ranges::sort(tensors, {}, &TensorEntry::name);
  const bool unique = std::ranges::adjacent_find(tensors, {}, &TensorEntry::name) == tensors.end();
  return unique ? std::optional(tensors) : std::nullopt;
}

void check_matrix(const InputFile& file, const TensorEntry& tensor) {
  require(is_floating(tensor.dtype), "a matrix of floats");
  require(is_exact_size(tensor.dtype, tensor.shape, tensor.bytes), "its bytes are what its shape takes");
  if (tensor.bytes > kMostRead) return;
  std::vector<std::byte> whole(tensor.bytes);
  TensorReader reader(file, tensor);
  if (!is_ok(reader.read(whole))) return;
  const std::uint64_t size = dtype_bits(tensor.dtype) / 8, piece = 37 * size;
  std::vector<std::byte> part;
  reader.rewind();
  for (std::uint64_t at = 0; at < whole.size(); at += part.size()) {
    part.resize(std::min<std::uint64_t>(piece, whole.size() - at));
    require(reader.read(part).ok(), "what was read whole is read in pieces");
    require(std::ranges::equal(part, std::span(whole).subspan(at, part.size())),
            "pieces are those of the whole");
  }
}

std::string hostile_quantized(std::string_view input, Random& random) {
  const std::size_t end = std::min(input.rfind(kSeparator), input.size());
  std::string text(input.substr(0, end));
  if (!replace_decimals(random, text, kMostBytes)) return {};
  return text + std::string(input.substr(end));
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  std::string_view rest = text_of(input);
  const auto config = parse_bounded_json(bytes_of(take_part(rest)));
  const auto list = parse_bounded_json(bytes_of(take_part(rest)));
  if (!is_ok(config) || !is_ok(list)) return;
  const std::optional<std::vector<TensorEntry>> tensors = listed_tensors(list.value());
  if (!tensors) return;
  std::uint64_t bytes = 0;
  for (const TensorEntry& tensor : *tensors) bytes += tensor.bytes;
  std::string data(rest.substr(0, bytes));
  data.resize(bytes, '\x5A');
  const MemoryFile memory(bytes_of(data));
  const std::vector<InputFile> files = {require_ok(InputFile::open(memory.path()), "the file opens")};
  const Result<DequantizedModel> model = dequantized_model(config.value(), *tensors, files);
  if (!is_ok(model)) return;
  require(!model.value().what.empty(), "it is said what was read");
  for (const TensorEntry& tensor : model.value().tensors)
    if (tensor.place.coding == StorageCoding::kComputed) check_matrix(files.front(), tensor);
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_quantized, data, size, most, seed);
}
