#include "cli/run/cache_file.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/checksum.h"
#include "base/files/inputs.h"
#include "base/files/interrupt.h"
#include "base/files/mapped_file.h"
#include "base/files/text.h"
#include "base/threads/parallel.h"
#include "base/within.h"
#include "formats/crumb_file/contents_checksum.h"
#include "graph/adapters.h"
#include "jobs/language/adapter_files.h"
#include "quant/tensor_source.h"

namespace crumb::cli {
namespace {

constexpr std::array<char, 12> kMagic = {'c', 'r', 'u', 'm', 'b', '-', 'c', 'a', 'c', 'h', 'e', '\0'};
constexpr std::uint32_t kVersion = 1;

std::string hex(std::uint32_t sum) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", sum);
  return text.data();
}

/// Returns the checksum of a whole file: that of its pieces' checksums.
std::uint32_t checksum_of_file(const std::filesystem::path& path, int threads, std::uint32_t before) {
  constexpr std::size_t kPiece = std::size_t{8} << 20;
  const MappedFile file = MappedFile::open(path).take();
  const std::span<const std::byte> bytes = file.bytes();
  std::vector<std::uint32_t> sums((bytes.size() + kPiece - 1) / kPiece);
  parallel_for(sums.size(), 1, threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      check_interrupt();
      const auto piece = bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece));
      sums[i] = crc32_of(piece);
      file.release(piece);
    }
  });
  sums.push_back(static_cast<std::uint32_t>(bytes.size()));
  return crc32_of(std::as_bytes(std::span(sums)), before);
}

std::uint32_t checksum_of_weights(const TensorSource& source, int threads) {
  if (const CrumbFile* packed = source.crumb()) return contents_checksum(packed->header());
  std::uint32_t sum = 0;
  if (const ModelFile* config = source.checkpoint()->find_file("config.json"))
    sum = crc32_of(config->bytes, sum);
  for (const InputFile& file : source.checkpoint()->tensor_files())
    sum = checksum_of_file(file.path(), threads, sum);
  return sum;
}

std::uint32_t checksum_of(const Adapter& adapter) {
  std::uint32_t sum = 0;
  const auto add = [&]<class T>(const T& values) { sum = crc32_of(std::as_bytes(std::span(values)), sum); };
  for (const LowRankUpdate& update : adapter.updates) {
    add(update.module);
    add(std::array{static_cast<std::uint64_t>(update.rank), static_cast<std::uint64_t>(update.in),
                   static_cast<std::uint64_t>(update.out)});
    add(update.down);
    add(update.up);
    add(std::array{update.scale});
  }
  return sum;
}

bool has_adapters(const TensorSource& source) {
  for (const SourceTensor& tensor : source.tensors()) {
    if (graph::is_of_adapter(tensor.name)) return true;
  }
  return false;
}

std::string field(const std::vector<std::pair<std::string, std::string>>& fields, const std::string& name) {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return "nothing";
}

/// Returns the bytes after the identity, which must match.
std::span<const std::byte> behind_identity(std::span<const std::byte> bytes,
                                           const NetworkIdentity& identity) {
  std::array<std::uint32_t, 2> numbers{};
  const std::size_t begin = kMagic.size() + sizeof numbers;
  if (bytes.size() < begin || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    throw Error(
        "it is no cache that names the network which made it, as this version's do: expected a file that "
        "--save-cache wrote; make it again");
  std::memcpy(numbers.data(), bytes.data() + kMagic.size(), sizeof numbers);
  if (numbers[0] != kVersion)
    throw Error("its version is " + std::to_string(numbers[0]) + ", expected " + std::to_string(kVersion));
  if (numbers[1] > bytes.size() - begin) throw Error("it is cut short");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + begin, numbers[1]);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) throw Error("what it says of its network is damaged");
  NetworkIdentity made;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_string()) throw Error("what it says of its network is damaged");
    made.fields.emplace_back(name, value.get<std::string>());
  }
  for (const auto& [name, value] : identity.fields) {
    const std::string found = field(made.fields, name);
    if (found != value)
      throw Error("it was made by another network: " + name + ": " + quote_text(found) + " there, " +
                  quote_text(value) + " here; run the one that made it, or make the cache again");
  }
  for (const auto& [name, value] : made.fields) {
    if (field(identity.fields, name) != value)
      throw Error("it was made by another network: " + quote_text(name) + " is " + quote_text(value));
  }
  return bytes.subspan(begin + numbers[1]);
}

}  // namespace

NetworkIdentity identity_of(const std::string& path, const jobs::ModelOptions& model_options,
                            runtime::Promise promise, int threads) {
  const TensorSource source = TensorSource::open(path);
  std::string adapters;
  jobs::Observer silent;  // opening the model says what is to be said of adapters
  for (const Adapter& adapter : jobs::read_adapters(model_options.adapters, source, silent))
    adapters += (adapters.empty() ? "" : ", ") + hex(checksum_of(adapter));
  const bool has_own = has_adapters(source);
  return {{{"weights", hex(checksum_of_weights(source, threads))},
           {"the model's own adapters", !has_own                         ? "none"
                                        : model_options.without_adapters ? "left out"
                                                                         : "in force"},
           {"adapters of --adapter", adapters.empty() ? "none" : adapters},
           {"--kv-cache", model_options.kv_cache.empty() ? "as the model has it" : model_options.kv_cache},
           {"numbers", promise == runtime::Promise::kFast ? "fast" : "exact"}}};
}

std::vector<std::byte> cache_bytes(const NetworkIdentity& identity, const runtime::Decoding& decoding) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, value] : identity.fields) json[name] = value;
  const std::string text = json.dump();
  const std::array<std::uint32_t, 2> numbers = {kVersion, static_cast<std::uint32_t>(text.size())};
  std::vector<std::byte> bytes;
  const auto add = [&](std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  add(std::as_bytes(std::span(kMagic)));
  add(std::as_bytes(std::span(numbers)));
  add(std::as_bytes(std::span(text)));
  add(decoding.save());
  return bytes;
}

void load_cache(const std::string& file, const NetworkIdentity& identity, runtime::Decoding& decoding) {
  const OwnFiles own;  // --save-cache may replace it
  const MappedFile mapped = MappedFile::open(file).take();
  try {
    decoding.restore(behind_identity(mapped.bytes(), identity));
  } catch (const Error& error) {
    throw within_file("--load-cache " + quote_text(file), error);
  }
}

}  // namespace crumb::cli
