#include "tests/fuzz/hostile_crumb.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/checksum.h"
#include "formats/crumb_file/crumb_file.h"
#include "tests/fuzz/fuzz.h"

namespace crumb::testing {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostFile = 1 << 16;

std::uint64_t aligned(std::uint64_t offset) {
  return (offset + kCrumbAlignment - 1) / kCrumbAlignment * kCrumbAlignment;
}

/// A blob's description, and what lay there.
struct Described {
  Json* json;
  std::string content;
  bool is_file;  ///< not a tensor's, whose raw size its shape gives
};

std::uint64_t number_of(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_number_unsigned() ? object[key].get<std::uint64_t>() : 0;
}

/// Not compressed, if it is a blob at all.
bool is_plain(const Json& blob) { return blob.contains("codec") && blob["codec"] == "none"; }

constexpr int kDeepest = 8;  // a header has 5 levels

void find_numbers(Json& json, std::vector<Json*>& numbers, int depth = 0) {
  if (json.is_number()) numbers.push_back(&json);
  if (json.is_structured() && depth < kDeepest)
    for (Json& inside : json) find_numbers(inside, numbers, depth + 1);
}

void find_blobs(Json& json, std::string_view file, std::vector<Described>& blobs, int depth = 0) {
  if (!json.is_structured() || depth == kDeepest) return;
  if (json.is_object() && json.contains("offset") && json.contains("stored")) {
    const std::uint64_t offset = std::min<std::uint64_t>(number_of(json, "offset"), file.size());
    const std::uint64_t stored = std::min<std::uint64_t>(number_of(json, "stored"), kMostFile);
    blobs.push_back({&json, std::string(file.substr(offset, stored)), false});
    return;
  }
  for (Json& inside : json) find_blobs(inside, file, blobs, depth + 1);
}

/// The header's text: as long as the preamble says, or up to its last brace.
std::string_view header_text(std::string_view file) {
  if (file.size() < kCrumbPreamble) return {};
  const std::string_view rest = file.substr(kCrumbPreamble);
  std::uint64_t length = 0;
  std::copy_n(file.data() + 16, sizeof length, reinterpret_cast<char*>(&length));
  return length <= rest.size() ? rest.substr(0, length) : rest.substr(0, rest.rfind('}') + 1);
}

void add_file(Json& header, Random& random) {
  if (!header.contains("files") || !header["files"].is_array() || header["files"].size() > 8) return;
  Json& files = header["files"];
  Json made = {
      {"path", "f" + std::to_string(random.below(100))},
      {"data", {{"offset", 0}, {"stored", 0}, {"raw", 0}, {"codec", "none"}, {"crc32", "00000000"}}}};
  if (!files.empty() && files.back().is_object() && files.back().contains("data"))
    made["data"] = files.back()["data"];
  if (random.one_in(4)) made["path"] = "graph.onnx";
  files.insert(files.begin() + static_cast<std::ptrdiff_t>(random.below(files.size() + 1)), std::move(made));
}

/// A kept tensor whose shape makes its size what a blob stores, a product modulo 2^64 perhaps.
void fit_shape(Json& header, const Json& blob, Random& random) {
  if (!header.contains("tensors") || !header["tensors"].is_array()) return;
  for (Json& tensor : header["tensors"]) {
    if (!tensor.is_object() || !tensor.contains("data") || tensor["data"] != blob) continue;
    if (!tensor.contains("dtype") || !tensor.contains("shape")) continue;  // a new key would move the others
    std::vector<std::uint64_t> shape(1 + random.below(4), number_of(blob, "stored"));
    if (random.one_in(2)) tensor["dtype"] = "U8";
    wrap_product(random, shape, number_of(blob, "stored"));
    tensor["shape"] = shape;
  }
}

/// Another of the words that an encoding knows, in place of one of its own.
void change_word(Json& header, Random& random) {
  if (!header.contains("tensors") || !header["tensors"].is_array() || header["tensors"].empty()) return;
  Json& tensor = header["tensors"][random.below(header["tensors"].size())];
  if (!tensor.is_object() || !tensor.contains("encoding") || !tensor["encoding"].is_object()) return;
  static constexpr std::pair<const char*, const char*> kWords[] = {
      {"layout", "tiles"}, {"layout", "rows"}, {"sign", "any"}, {"zero", "min"},
      {"zero", "int"},     {"scale", "f32"},   {"scale", "f16"}};
  const auto& [key, word] = random.pick(kWords);
  tensor["encoding"][key] = word;
}

void change(Json& header, std::vector<Described>& blobs, std::uint64_t size, Random& random) {
  if (random.one_in(3)) change_word(header, random);
  std::vector<Json*> numbers;
  find_numbers(header, numbers);
  for (std::uint64_t changes = random.below(4); changes-- > 0 && !numbers.empty();) {
    Json& number = *random.pick(numbers);
    const std::uint64_t old = number.is_number_unsigned() ? number.get<std::uint64_t>() : 0;
    number = hostile_number(random, size, old);
  }
  for (std::uint64_t changes = random.below(4); changes-- > 0 && !blobs.empty();) {
    Json& blob = *random.pick(blobs).json;
    switch (random.below(3)) {
      case 0: blob["codec"] = random.one_in(2) ? "none" : "zstd"; break;
      case 1: fit_shape(header, blob, random); break;
      default: blob["stored"] = hostile_number(random, size, number_of(blob, "stored"));
    }
    if (!random.one_in(4) && is_plain(blob)) blob["raw"] = number_of(blob, "stored");
  }
}

/// Gives every blob the place behind the one before it, modulo 2^64; where the last one ends.
std::uint64_t lay_out(std::vector<Described>& blobs, std::uint64_t end) {
  for (Described& blob : blobs) {
    (*blob.json)["offset"] = aligned(end);
    end = aligned(end) + number_of(*blob.json, "stored");
  }
  return end;
}

/// The last `count` blobs share 2^64 bytes, so that what lies behind them lies where it would without them, or nearly.
void share_everything(std::vector<Described>& blobs, std::size_t count, Random& random) {
  const std::uint64_t each = (~std::uint64_t{0} / count + 1) / kCrumbAlignment * kCrumbAlignment;
  for (Described& blob : std::span(blobs).last(count)) {
    (*blob.json)["stored"] = each;
    (*blob.json)["codec"] = blob.is_file && !random.one_in(3) ? "none" : "zstd";
    if (is_plain(*blob.json)) (*blob.json)["raw"] = each;
  }
}

std::string checksum(std::string_view content) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", crc32_of(bytes_of(content)));
  return text;
}

}  // namespace

std::string hostile_packed_file(std::string_view file, Random& random) {
  Json header = Json::parse(header_text(file), nullptr, false);
  if (header.is_discarded() || !header.is_object()) return {};
  for (std::uint64_t more = random.below(5); more-- > 2;) add_file(header, random);
  std::vector<Described> blobs;
  if (header.contains("tensors")) find_blobs(header["tensors"], file, blobs);
  const std::size_t of_tensors = blobs.size();
  if (header.contains("files")) find_blobs(header["files"], file, blobs);
  for (Described& blob : std::span(blobs).subspan(of_tensors)) blob.is_file = true;
  change(header, blobs, file.size(), random);

  // Numbers have fewer digits or more with every place: some rounds until the header's length stays.
  const bool placed = !random.one_in(8), wraps = random.one_in(2) && !blobs.empty();
  if (wraps && random.one_in(2))
    share_everything(blobs, 1 + random.below(std::min<std::size_t>(blobs.size(), 8)), random);
  std::string text = header.dump() + "\n";
  std::uint64_t total = 0;
  for (int round = 0; round < 4; ++round) {
    const std::uint64_t begin = kCrumbPreamble + text.size();
    if (placed) total = lay_out(blobs, begin);
    if (!placed || wraps || total > kMostFile) {  // as long as the blobs that were there
      total = begin;
      for (const Described& blob : blobs)
        if (number_of(*blob.json, "stored") <= kMostFile)
          total = aligned(total) + number_of(*blob.json, "stored");
      total = std::min(total, kMostFile);
    }
    if (placed && wraps) {
      Json& last = *blobs.back().json;
      last["stored"] = total - number_of(last, "offset");
      if (is_plain(last)) last["raw"] = last["stored"];
    }
    for (Described& blob : blobs)
      if (number_of(*blob.json, "stored") == blob.content.size())
        (*blob.json)["crc32"] = checksum(blob.content);
    const std::size_t length = text.size();
    text = header.dump() + "\n";
    if (text.size() <= length) {
      text.insert(text.size() - 1, length - text.size(), ' ');
      break;
    }
  }
  std::string made(std::max<std::uint64_t>(total, kCrumbPreamble + text.size()), '\0');
  made.replace(kCrumbPreamble, text.size(), text);
  for (const Described& blob : blobs) {
    const std::uint64_t offset = number_of(*blob.json, "offset");
    if (offset >= kCrumbPreamble + text.size() && offset <= made.size() &&
        blob.content.size() <= made.size() - offset)
      made.replace(offset, blob.content.size(), blob.content);
  }
  const std::uint32_t version = file[8] == 1 && !random.one_in(4) ? 1 : kCrumbVersion;
  const auto preamble = write_crumb_preamble(text, made.size(), version);
  made.replace(0, preamble.size(), reinterpret_cast<const char*>(preamble.data()), preamble.size());
  return made;
}

}  // namespace crumb::testing
