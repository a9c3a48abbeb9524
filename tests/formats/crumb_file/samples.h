// Packed files for the tests: made by the writer, taken apart, changed, and put together again with every
// checksum and offset right, so that a damage is seen by the check that is meant to see it and not by a
// checksum.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "formats/crumb_file/crumb_file.h"
#include "formats/crumb_file/writer.h"
#include "quant/packed/packed_check.h"
#include "quant/packed/packed_tensor.h"
#include "quant/quantizer.h"
#include "tests/support/samples.h"

namespace crumb::testing {

using Json = nlohmann::ordered_json;

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

inline void write_all(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(content.data(), std::ssize(content));
}

/// What a file will hold: tensors to quantize (with a spec), tensors to keep (F32, without one), other files.
struct Wanted {
  std::string name;
  std::vector<uint64_t> shape;
  std::string spec;
};

inline std::string write_sample(const std::filesystem::path& path, const std::vector<Wanted>& wanted,
                                int zstd_level = 0, uint64_t seed = 1,
                                const std::string& config = R"({"hidden_size":8})") {
  CrumbHeader plan;
  plan.model = "TestModel";
  for (const Wanted& w : wanted) {
    if (!w.spec.empty()) {
      const QuantSpec spec = QuantSpec::parse(w.spec);
      plan.tensors.push_back(
          plan_encoded(w.name, DType::kF32, w.shape, spec.to_string(), spec.encoding(w.shape)));
      continue;
    }
    PackedTensor kept;
    kept.name = w.name;
    kept.shape = w.shape;
    plan.tensors.push_back(kept);
  }
  plan.files.push_back({"config.json", Blob{.raw = config.size()}});
  CrumbWriter writer(path, plan, zstd_level);
  for (const Wanted& w : wanted) {
    const std::vector<float> values = testing::normal_values(elements(w.shape), seed++);
    if (w.spec.empty()) {
      writer.write(std::as_bytes(std::span(values)));
    } else {
      write_encoded(writer, quantize(QuantSpec::parse(w.spec), values, w.shape, {.threads = 1}));
    }
  }
  writer.write(bytes_of(config));
  writer.finish();
  return read_all(path);
}

/// Preamble and header around what follows the header, checksums and lengths right.
inline std::string with_header(std::string_view header, std::string_view rest,
                               uint32_t version = kCrumbVersion) {
  const auto preamble = write_crumb_preamble(header, kCrumbPreamble + header.size() + rest.size(), version);
  std::string file(reinterpret_cast<const char*>(preamble.data()), preamble.size());
  return file.append(header).append(rest);
}

inline std::string_view header_of(std::string_view file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data() + 16, sizeof length);
  return file.substr(kCrumbPreamble, length);
}

/// The CRC-32 of what a blob's stored bytes stand for, as far as they do.
inline uint32_t raw_crc(const Json& blob, std::string_view stored) {
  if (!blob.contains("codec") || blob["codec"] != "zstd") return crc32_of(bytes_of(stored));
  uint32_t crc = 0;
  const bool known = blob.contains("raw") && blob["raw"].is_number_unsigned();
  const uint64_t raw = known ? blob["raw"].get<uint64_t>() : 0;
  (void)decompress(bytes_of(stored), raw, "a blob", [&](std::span<const std::byte> slice) {
    crc = crc32_of(slice, crc);
    return Status();
  }).ok();
  return crc;
}

/// A packed file taken apart: its header, and the blobs in the file's order.
struct Taken {
  uint32_t version = kCrumbVersion;
  Json header;
  std::vector<std::string> blobs;

  /// The header's blob descriptions, in the file's order. What is no blob (any more) is left out.
  static std::vector<Json*> descriptions(Json& header) {
    std::vector<Json*> found;
    const auto note = [&](Json& entry, std::string_view key) {
      if (entry.is_object() && entry.contains(key) && entry[std::string(key)].is_object()) {
        found.push_back(&entry[std::string(key)]);
      }
    };
    if (!header.is_object()) return found;
    for (const char* list : {"tensors", "files"}) {
      if (!header.contains(list) || !header[list].is_array()) continue;
      for (Json& entry : header[list]) {
        for (const std::string_view part : kPartNames) note(entry, part);
      }
    }
    return found;
  }

  explicit Taken(std::string_view file) : header(Json::parse(header_of(file))) {
    std::memcpy(&version, file.data() + 8, sizeof version);
    for (const Json* blob : descriptions(header)) {
      blobs.emplace_back(file.substr((*blob)["offset"].get<uint64_t>(), (*blob)["stored"].get<uint64_t>()));
    }
  }

  /// The index in blobs of a tensor's part.
  size_t index(const std::string& tensor, std::string_view part) {
    for (Json& entry : header["tensors"]) {
      if (entry["name"] != tensor) continue;
      const std::vector<Json*> all = descriptions(header);
      return static_cast<size_t>(std::ranges::find(all, &entry[std::string(part)]) - all.begin());
    }
    throw std::logic_error("no tensor " + tensor);
  }
  std::string& blob(const std::string& tensor, std::string_view part) {
    return blobs.at(index(tensor, part));
  }

  /// The file again: offsets and checksums are those of the blobs, `stored` too; `raw` stays as it is, but
  /// for blobs that are not compressed.
  std::string build() {
    const std::vector<Json*> all = descriptions(header);
    std::string text;
    for (size_t length = 0, tries = 0; tries < 8; ++tries, length = text.size()) {
      uint64_t end = kCrumbPreamble + length;
      for (size_t i = 0; i < std::min(all.size(), blobs.size()); ++i) {
        Json& blob = *all[i];
        const uint64_t offset = (end + 63) / 64 * 64;
        char crc[16];
        std::snprintf(crc, sizeof crc, "%08x",
                      version == 1 ? crc32_of(bytes_of(blobs[i])) : raw_crc(blob, blobs[i]));
        blob["offset"] = offset;
        blob["stored"] = blobs[i].size();
        if (blob.contains("codec") && blob["codec"] == "none") blob["raw"] = blobs[i].size();
        blob["crc32"] = crc;
        end = offset + blobs[i].size();
      }
      text = header.dump();
      if (text.size() == length) break;
    }
    std::string rest;
    const uint64_t begin = kCrumbPreamble + text.size();
    for (size_t i = 0; i < std::min(all.size(), blobs.size()); ++i) {
      rest.resize((begin + rest.size() + 63) / 64 * 64 - begin, '\0');
      rest += blobs[i];
    }
    return with_header(text, rest, version);
  }
};

/// What open() or check_packed_file() says of a file with this content; "" where it is sound.
inline std::string verdict(const std::filesystem::path& path) {
  const Result<CrumbFile> file = CrumbFile::open(path);
  if (!file.ok()) return file.failure().message.empty() ? "(an empty message)" : file.failure().message;
  const Status status = check_packed_file(file.value());
  if (status.ok()) return "";
  return status.failure().message.empty() ? "(an empty message)" : status.failure().message;
}

inline std::string verdict(const std::filesystem::path& path, std::string_view content) {
  write_all(path, content);
  return verdict(path);
}

}  // namespace crumb::testing
