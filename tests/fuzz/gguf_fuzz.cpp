// GGUF: what is listed lies inside the file and apart, values read as what they are, and the checkpoint that is made of
// it has tensors that decode and files that are JSON.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/checkpoint/checkpoint.h"
#include "formats/checkpoint/decoder_config.h"
#include "formats/gguf/gguf.h"
#include "formats/gguf/model.h"
#include "formats/gguf/split.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hostile_gguf.h"
#include "tests/fuzz/listing.h"

namespace crumb::testing {
namespace {

void check_value(const GgufValue& value) {
  const Result<std::uint64_t> natural = gguf_natural(value);
  const Result<double> number = gguf_number(value);
  require(!is_ok(natural) || is_ok(number), "a natural number is a number");
  (void)is_ok(gguf_bool(value));
  (void)is_ok(gguf_text(value));
  if (value.type != GgufValueType::kArray) return;
  std::uint64_t seen = 0;
  require(is_ok(gguf_for_each(value, value.element,
                              [&](const GgufValue& element) -> Status {
                                ++seen;
                                if (seen < 8) check_value(element);
                                return {};
                              })),
          "an array of a sound header has its elements");
  require(seen == value.count, "an array has as many elements as it says");
}

void check_header(std::span<const std::byte> file, const GgufHeader& header) {
  require(looks_like_gguf(file), "what parses looks like GGUF");
  require(std::ranges::is_sorted(header.metadata, {}, &GgufEntry::key), "metadata are sorted");
  for (const GgufEntry& entry : header.metadata) {
    require(header.find(entry.key) == &entry.value, "an entry is found, and its key is its own");
    check_value(entry.value);
  }
  std::set<std::string_view> names;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const GgufTensor& tensor : header.tensors) {
    require(names.insert(tensor.name).second, "names are unique");
    require(tensor.offset <= file.size() && tensor.bytes <= file.size() - tensor.offset,
            "data lie in the file");
    require(tensor.bytes % tensor.type->block_bytes == 0, "data are whole blocks");
    if (tensor.bytes == 0) continue;
    require(tensor.offset >= header.data_offset, "data lie behind the header");
    places.emplace_back(tensor.offset, tensor.bytes);
  }
  std::ranges::sort(places);
  for (std::size_t i = 1; i < places.size(); ++i)
    require(places[i].first >= places[i - 1].first + places[i - 1].second, "data lie apart");
}

void check_files(const std::vector<MadeFile>& files) {
  require(std::ranges::is_sorted(files, {}, &MadeFile::path), "files are sorted");
  for (const MadeFile& file : files) {
    require(nlohmann::json::parse(file.text, nullptr, false).is_object(), file.path + " is a JSON object");
    if (file.path != "config.json") continue;
    try {
      (void)DecoderConfig::parse(JsonFile(file.path, file.text));
    } catch (const Error& error) {
      require(*error.what() != '\0', "a failure says why");
    }
  }
}

/// A model in two files, of which the second is the first with the next number.
void check_parts(std::span<const std::byte> input) {
  std::string next(text_of(input));
  const std::size_t key = next.find("split.no"), number = key + 8 + sizeof(std::uint32_t);
  if (key != std::string::npos && number < next.size()) ++next[number];
  const GgufPart first{"m-00001-of-00002.gguf", input};
  const auto open = [&](const std::string& name) -> Result<std::span<const std::byte>> {
    require(name == "m-00002-of-00002.gguf", "the other part is asked for");
    return bytes_of(next);
  };
  const Result<std::vector<GgufPart>> parts = find_gguf_parts(first, open);
  if (!is_ok(parts)) return;
  const Result<GgufModel> model = read_gguf_model(parts.value(), first.name);
  if (!is_ok(model)) return;
  for (const StoredTensor& tensor : model.value().listing.tensors)
    require(tensor.file.empty() || tensor.file == "m-00002-of-00002.gguf", "a tensor lies in a part");
}

}  // namespace

void fuzz(std::span<const std::byte> input) {
  check_parts(input);
  const Result<GgufHeader> header = parse_gguf(input);
  Result<GgufModel> model = read_gguf_model(input);
  require(is_ok(header) || !is_ok(model), "a model has a sound header");
  if (!header.ok()) return;
  check_header(input, header.value());
  if (!is_ok(model)) return;
  check_files(model.value().files);
  const std::size_t tensors = model.value().listing.tensors.size();
  check_listing(input, std::move(model.value().listing));

  const MemoryFile memory(input);
  const Result<Checkpoint> checkpoint = Checkpoint::open(memory.path());
  if (!is_ok(checkpoint)) return;
  require(checkpoint.value().tensors().size() == tensors, "a checkpoint has the model's tensors");
  require((checkpoint.value().config() != nullptr) == !model.value().files.empty(),
          "a model that is known has a configuration");
}

}  // namespace crumb::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return crumb::testing::mutate_with(crumb::testing::hostile_gguf, data, size, most, seed);
}
