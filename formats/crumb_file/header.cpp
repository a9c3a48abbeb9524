// The header's JSON: one tensor a line. Numbers that depend on the data (offsets, sizes, checksums) have a
// fixed width, so that the header's length is known before the first blob is written.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/checked_size.h"
#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "formats/crumb_file/crumb_file.h"

namespace crumb {
namespace {

using nlohmann::json;

std::string quoted(const std::string& text) { return json(text).dump(); }

std::string blob_json(const Blob& blob) {
  char text[160];
  std::snprintf(text, sizeof text,
                R"({"offset":%16llu,"stored":%16llu,"raw":%16llu,"codec":"%s","crc32":"%08x"})",
                static_cast<unsigned long long>(blob.offset), static_cast<unsigned long long>(blob.stored),
                static_cast<unsigned long long>(blob.raw),
                kCodecNames[static_cast<size_t>(blob.codec)].data(), blob.crc);
  return text;
}

/// Whether scales may be negative, by Encoding::signed_scales.
constexpr std::string_view kSignNames[] = {"plus", "any"};

/// What this reader knows beyond the main part of docs/crumb_file.md.
constexpr std::string_view kStacks = "stacks";

/// What a file may ask of a reader beyond what this one does (docs/crumb_file.md, "Features").
constexpr std::string_view kUnreadFeatures[] = {"adapters", "outliers", "cache"};

std::string encoding_json(const Encoding& e, uint32_t version) {
  std::string text = R"({"number":")" + std::string(e.number->name) + R"(","range":")" +
                     std::string(kRangeNames[static_cast<size_t>(e.range)]) + R"(","block":[)" +
                     std::to_string(e.block_rows) + "," + std::to_string(e.block_cols) + R"(],"scale":")" +
                     std::string(scale_format_row(e.scale).name) + R"(",)";
  if (version > 1) text += R"("sign":")" + std::string(kSignNames[e.signed_scales]) + R"(",)";
  text += R"("scale_exponent":)" + std::to_string(e.scale_exponent) + R"(,"zero":")" +
          std::string(kZeroPointNames[static_cast<size_t>(e.zero)]) + '"';
  if (version > 1)
    text += R"(,"layout":")" + std::string(kCodeLayoutNames[static_cast<size_t>(e.codes)]) + '"';
  if (e.stack_axes > 0) text += R"(,"stack":)" + std::to_string(e.stack_axes);
  return text + "}";
}

std::string tensor_json(const PackedTensor& tensor, uint32_t version) {
  std::string text = R"({"name":)" + quoted(tensor.name) + R"(,"dtype":")" +
                     std::string(dtype_name(tensor.dtype)) + R"(","shape":)" + json(tensor.shape).dump();
  if (tensor.encoding) {
    text +=
        R"(,"spec":)" + quoted(tensor.spec) + R"(,"encoding":)" + encoding_json(*tensor.encoding, version);
  }
  for (size_t part = 0; part < kPartNames.size(); ++part) {
    if (tensor.parts[part]) {
      text += ",\n   \"" + std::string(kPartNames[part]) + "\":" + blob_json(*tensor.parts[part]);
    }
  }
  return text + "}";
}

/// Reads the header while it is parsed: every tensor and file by itself, then what is left of the root.
/// Methods throw Failure.
class HeaderReader {
 public:
  /// Room for as many tensors as so many bytes of JSON can name: growing would hold them twice.
  HeaderReader(uint64_t header_bytes, uint32_t version) {
    header_.version = version;
    header_.tensors.reserve(header_bytes / kLeastTensorText);
  }

  void element(std::string_view list, const json& entry) {
    if (list == "tensors") {
      header_.tensors.push_back(tensor(entry));
      const std::optional<Encoding>& encoding = header_.tensors.back().encoding;
      names_stacks_ = names_stacks_ || (encoding && encoding->stack_axes > 0);
    }
    if (list == "files") header_.files.push_back(file(entry));
    if (list == "features" && !is_first()) take_feature(entry);
  }

  CrumbHeader finish(const json& root) {
    require(root.is_object(), "the header", "is not a JSON object");
    allow_keys(root, "the header",
               {"format", "model", "tensors", "files", is_first() ? "files" : "features"});
    require(string_at(root, "the header", "format") == "crumb", "the header",
            "has a format other than \"crumb\"");
    header_.model = string_at(root, "the header", "model");
    if (!is_first()) array_at(root, "the header", "features");
    array_at(root, "the header", "tensors");
    array_at(root, "the header", "files");
    require(!names_stacks_ || has_stacks_, "the header",
            "has tensors that are stacks, and not the feature \"stacks\"");
    return std::move(header_);
  }

 private:
  bool is_first() const { return header_.version == 1; }

  void take_feature(const json& feature) {
    require(feature.is_string(), "the header", "has a feature that is not a string");
    const std::string name = feature.get<std::string>();
    if (name == kStacks) {
      require(!has_stacks_, "the header", "has the feature " + quote_text(name) + " twice");
      has_stacks_ = true;
      return;
    }
    const bool defined = std::ranges::find(kUnreadFeatures, name) != std::end(kUnreadFeatures);
    fail("the header", "asks for the feature " + quote_text(name) +
                           (defined ? ", which this version of Crumb does not read (not yet)"
                                    : ", which this version of Crumb does not know"));
  }

  static constexpr uint64_t kLeastTensorText =
      std::string_view(R"({"name":"a","dtype":"U8","shape":[],"data":{"offset":9,"stored":1,"raw":1,)"
                       R"("codec":"none","crc32":"00000000"}},)")
          .size();

  [[noreturn]] static void fail(const std::string& where, const std::string& what) {
    throw Failure{where + " " + what};
  }
  static void require(bool holds, const std::string& where, const std::string& what) {
    if (!holds) fail(where, what);
  }

  static void allow_keys(const json& object, const std::string& where,
                         std::initializer_list<std::string_view> keys) {
    for (const auto& [key, value] : object.items()) {
      if (std::ranges::find(keys, std::string_view(key)) == keys.end()) {
        fail(where, "has an unknown key " + quote_text(key));
      }
    }
  }

  static const json& at(const json& object, const std::string& where, const char* key) {
    require(object.is_object(), where, "is not a JSON object");
    const auto found = object.find(key);
    require(found != object.end(), where, std::string("has no \"") + key + "\"");
    return *found;
  }
  static std::string string_at(const json& object, const std::string& where, const char* key) {
    const json& value = at(object, where, key);
    require(value.is_string(), where, std::string("has a \"") + key + "\" that is not a string");
    return value.get<std::string>();
  }
  static const json& array_at(const json& object, const std::string& where, const char* key) {
    const json& value = at(object, where, key);
    require(value.is_array(), where, std::string("has a \"") + key + "\" that is not an array");
    return value;
  }
  static uint64_t number(const json& value, const std::string& where, const char* key) {
    require(value.is_number_unsigned(), where,
            std::string("has a \"") + key + "\" that is not a natural number");
    return value.get<uint64_t>();
  }

  template <class Names>
  static size_t choice(const json& object, const std::string& where, const char* key, const Names& names) {
    const std::string name = string_at(object, where, key);
    for (size_t i = 0; i < std::size(names); ++i) {
      if (names[i] == name) return i;
    }
    fail(where, std::string("has an unknown ") + key + " " + quote_text(name));
  }

  PackedTensor tensor(const json& entry) const {
    PackedTensor tensor;
    tensor.name = string_at(entry, "a tensor", "name");
    const std::string where = "tensor " + quote_text(tensor.name);
    const std::string dtype = string_at(entry, where, "dtype");
    const std::optional<DType> known = dtype_from_name(dtype);
    require(known.has_value(), where, "has an unknown dtype " + quote_text(dtype));
    tensor.dtype = *known;
    for (const json& axis : array_at(entry, where, "shape"))
      tensor.shape.push_back(number(axis, where, "shape"));
    if (entry.contains("encoding")) {
      tensor.spec = string_at(entry, where, "spec");
      tensor.encoding = encoding(at(entry, where, "encoding"), where);
      tensor.encoding->tensor_scale = entry.contains("tensor_scale");
      require(is_floating(tensor.dtype), where, "is encoded but its dtype is " + dtype);
    }
    const bool in_tiles = tensor.encoding && tensor.encoding->codes == CodeLayout::kTiles;
    allow_keys(
        entry, where,
        {"name", "dtype", "shape", tensor.encoding ? "spec" : "name", tensor.encoding ? "encoding" : "name",
         kPartNames[0], kPartNames[1], kPartNames[2], kPartNames[3], kPartNames[4], kPartNames[5]});
    const auto sizes = part_sizes(tensor);
    if (!sizes.ok()) fail(where + ":", sizes.failure().message);
    for (size_t part = 0; part < kPartNames.size(); ++part) {
      const std::string key(kPartNames[part]);
      const std::optional<uint64_t>& size = sizes.value()[part];
      require(entry.contains(key) == size.has_value(), where,
              size ? "has no \"" + key + "\"" : "has a part \"" + key + "\" that its encoding does not have");
      if (!size) continue;
      const Blob& made = tensor.parts[part].emplace(blob(entry.at(key), where + ": " + key, size));
      require(!in_tiles || made.codec == Codec::kNone, where + ": " + key,
              "is compressed, which no part of a tensor in tiles is");
    }
    return tensor;
  }

  Encoding encoding(const json& entry, const std::string& where) const {
    const std::string inside = where + ": encoding";
    Encoding e;
    const std::string name = string_at(entry, inside, "number");
    e.number = find_number_format(name);
    require(e.number && !e.number->scale_only, inside, "has an unknown number format " + quote_text(name));
    allow_keys(entry, inside,
               {"number", "range", "block", "scale", "scale_exponent", "zero", is_first() ? "zero" : "sign",
                is_first() ? "zero" : "layout", is_first() ? "zero" : "stack"});
    e.range = static_cast<Range>(choice(entry, inside, "range", kRangeNames));
    require(e.range == e.number->default_range() || e.number->has_range(), inside,
            "has a range that " + name + " does not have");
    std::vector<std::string_view> scale_names;
    for (const ScaleFormatRow& row : kScaleFormats) scale_names.push_back(row.name);
    e.scale = static_cast<ScaleFormat>(choice(entry, inside, "scale", scale_names));
    const std::span<const std::string_view> zeros(kZeroPointNames);
    e.zero = static_cast<ZeroPoint>(choice(entry, inside, "zero", is_first() ? zeros.first(3) : zeros));
    if (!is_first()) {
      e.signed_scales = choice(entry, inside, "sign", kSignNames) != 0;
      e.codes = static_cast<CodeLayout>(choice(entry, inside, "layout", kCodeLayoutNames));
    }
    require(e.zero == ZeroPoint::kNone || e.number->has_zero_point(), inside,
            "has a zero point, which " + name + " does not take");
    const json& exponent = at(entry, inside, "scale_exponent");
    // A number beyond int64_t is unsigned in JSON and would come out negative.
    const bool small = exponent.is_number_unsigned()
                           ? exponent.get<uint64_t>() <= 126
                           : exponent.is_number_integer() && exponent.get<int64_t>() >= -126 &&
                                 exponent.get<int64_t>() < 0;  // -0 is none
    require(small, inside, "has a scale_exponent that is not an integer from -126 to 126");
    e.scale_exponent = exponent.get<int>();
    const json& block = array_at(entry, inside, "block");
    require(block.size() == 2, inside, "has a block that is not [rows, columns]");
    e.block_rows = number(block[0], inside, "block");
    e.block_cols = number(block[1], inside, "block");
    require(e.block_rows > 0 && e.block_cols > 0, inside, "has an empty block");
    if (entry.contains("stack")) {
      e.stack_axes = number(entry.at("stack"), inside, "stack");
      require(e.stack_axes > 0 && e.stack_axes <= kCrumbMostAxes, inside, "has a stack of no axes");
    }
    return e;
  }

  Blob blob(const json& entry, const std::string& where, std::optional<uint64_t> raw) const {
    allow_keys(entry, where, {"offset", "stored", "raw", "codec", "crc32"});
    Blob blob;
    blob.offset = number(at(entry, where, "offset"), where, "offset");
    blob.stored = number(at(entry, where, "stored"), where, "stored");
    blob.raw = number(at(entry, where, "raw"), where, "raw");
    blob.codec = static_cast<Codec>(choice(entry, where, "codec", kCodecNames));
    const std::string crc = string_at(entry, where, "crc32");
    require(crc.size() == 8 && crc.find_first_not_of("0123456789abcdef") == std::string::npos, where,
            "has a crc32 that is not eight lower-case hexadecimal digits: " + quote_text(crc));
    blob.crc = static_cast<uint32_t>(std::stoul(crc, nullptr, 16));
    blob.crc_stored = is_first();
    require(!raw || blob.raw == *raw, where,
            "has " + std::to_string(blob.raw) + " raw bytes, but its shape and encoding need " +
                std::to_string(raw.value_or(0)));
    require(blob.codec != Codec::kNone || blob.stored == blob.raw, where,
            "is not compressed, yet stores " + std::to_string(blob.stored) + " bytes for " +
                std::to_string(blob.raw));
    return blob;
  }

  PackedFile file(const json& entry) const {
    PackedFile file;
    file.path = string_at(entry, "a file", "path");
    const std::string where = "file " + quote_text(file.path);
    allow_keys(entry, where, {"path", "data"});
    file.blob = blob(at(entry, where, "data"), where, std::nullopt);
    return file;
  }

  CrumbHeader header_;
  bool has_stacks_ = false, names_stacks_ = false;  ///< the feature; a tensor
};

/// Where blobs lie: each behind the one before it, all inside the file, the last one up to its end.
class BlobOrder {
 public:
  BlobOrder(uint64_t first_blob, uint64_t file_size) : end_(first_blob), file_size_(file_size) {}

  Status place(const Blob& blob, const auto& where) {
    const uint64_t begin = checked::align_up(end_, kCrumbAlignment).value_or(end_);
    if (blob.offset != begin) {
      return Failure{where() + " lies at offset " + std::to_string(blob.offset) + ", expected " +
                     std::to_string(begin) + " (the next multiple of 64 after the part before it)"};
    }
    // Blob by blob: a sum of sizes that is looked at in the end may have wrapped on the way.
    if (!checked::fits(begin, blob.stored, file_size_)) {
      return Failure{where() + " stores " + byte_text(blob.stored) + " at offset " + std::to_string(begin) +
                     ", beyond the end of the file of " + byte_text(file_size_)};
    }
    end_ = begin + blob.stored;
    return {};
  }

  Status finish() const {
    if (end_ == file_size_) return {};
    return Failure{"the header describes " + byte_text(end_) + ", the file has " + byte_text(file_size_)};
  }

 private:
  uint64_t end_, file_size_;
};

Status check_order(const CrumbHeader& header, uint64_t first_blob, uint64_t file_size) {
  BlobOrder order(first_blob, file_size);
  for (const PackedTensor& tensor : header.tensors) {
    for (size_t part = 0; part < kPartNames.size(); ++part) {
      if (!tensor.parts[part]) continue;
      const auto where = [&] { return part_text(tensor, static_cast<Part>(part)); };
      if (Status placed = order.place(*tensor.parts[part], where); !placed.ok()) return placed;
    }
  }
  for (const PackedFile& file : header.files) {
    const auto where = [&] { return "file " + quote_text(file.path); };
    if (Status placed = order.place(file.blob, where); !placed.ok()) return placed;
  }
  return order.finish();
}

}  // namespace

std::string part_text(const PackedTensor& tensor, Part part) {
  return "tensor " + quote_text(tensor.name) + ": " + std::string(kPartNames[static_cast<size_t>(part)]);
}

uint64_t PackedTensor::stored_bytes() const {
  uint64_t bytes = 0;
  for (const auto& blob : parts) bytes += blob ? blob->stored : 0;
  return bytes;
}

Result<std::array<std::optional<uint64_t>, kPartNames.size()>> part_sizes(const PackedTensor& tensor) {
  std::array<std::optional<uint64_t>, kPartNames.size()> sizes;
  if (tensor.shape.size() > kCrumbMostAxes) return Failure{"has more than 64 axes"};
  const uint64_t stack_axes = tensor.encoding ? tensor.encoding->stack_axes : 0;
  if (const auto matrix = matrix_shape(tensor.shape, stack_axes); !matrix.ok()) return matrix.failure();
  if (!tensor.encoding) {
    const Result<uint64_t> bytes = tensor_byte_size(tensor.dtype, tensor.shape);
    if (!bytes.ok()) return bytes.failure();
    sizes[static_cast<size_t>(Part::kData)] = bytes.value();
    return sizes;
  }
  const Encoding& e = *tensor.encoding;
  const Result<EncodedLayout> layout = encoded_layout(e, tensor.shape);
  if (!layout.ok()) return layout.failure();
  sizes[static_cast<size_t>(Part::kCodes)] = layout.value().codes_bytes;
  sizes[static_cast<size_t>(Part::kScales)] = layout.value().scales_bytes;
  if (e.zero != ZeroPoint::kNone) sizes[static_cast<size_t>(Part::kZeros)] = layout.value().zeros_bytes;
  if (e.number->learned) sizes[static_cast<size_t>(Part::kCodebook)] = layout.value().codebook_bytes;
  if (e.tensor_scale) sizes[static_cast<size_t>(Part::kTensorScale)] = layout.value().tensor_scale_bytes;
  return sizes;
}

namespace {

std::string features_json(const CrumbHeader& header) {
  const bool has_stacks = std::ranges::any_of(header.tensors, [](const PackedTensor& tensor) {
    return tensor.encoding && tensor.encoding->stack_axes > 0;
  });
  return has_stacks ? quoted(std::string(kStacks)) : std::string();
}

}  // namespace

std::string write_crumb_header(const CrumbHeader& header) {
  std::string text = R"({"format":"crumb","model":)" + quoted(header.model) +
                     (header.version > 1 ? R"(,"features":[)" + features_json(header) + "]" : "") +
                     ",\n \"tensors\":[";
  for (size_t i = 0; i < header.tensors.size(); ++i)
    text += (i ? ",\n  " : "\n  ") + tensor_json(header.tensors[i], header.version);
  text += "],\n \"files\":[";
  for (size_t i = 0; i < header.files.size(); ++i) {
    text += (i ? ",\n  " : "\n  ");
    text +=
        R"({"path":)" + quoted(header.files[i].path) + R"(,"data":)" + blob_json(header.files[i].blob) + "}";
  }
  return text + "]}\n";
}

Result<CrumbHeader> parse_crumb_header(std::span<const std::byte> text, uint64_t first_blob,
                                       uint64_t file_size, uint32_t version) {
  // Elements are taken one by one, so this bounds the largest of them: as long as the whole header, for its
  // names, and room for what a tensor's parts need.
  const JsonLimits limits{.max_bytes = (uint64_t{1} << 20) + 2 * text.size(),
                          .max_token_bytes = text.size() + 1};
  try {
    HeaderReader reader(text.size(), version);
    const Result<json> root = parse_bounded_json_lists(
        text, limits, [&](std::string_view list, const json& entry) { reader.element(list, entry); });
    if (!root.ok()) return Failure{"the header: " + root.failure().message};
    CrumbHeader header = reader.finish(root.value());
    if (const Status names = check_crumb_names(header); !names.ok()) return names.failure();
    if (const Status order = check_order(header, first_blob, file_size); !order.ok()) return order.failure();
    return header;
  } catch (const Failure& failure) {
    return failure;
  }
}

}  // namespace crumb
