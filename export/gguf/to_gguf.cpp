#include "export/gguf/to_gguf.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include "base/files/counted.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "export/gguf/block_type.h"
#include "export/gguf/network.h"
#include "formats/gguf/writer.h"
#include "models/configured_network.h"
#include "quant/packed/packed_stream.h"
#include "quant/packed/packed_tensor.h"

namespace crumb::exporting {
namespace {

namespace fs = std::filesystem;

/// In what a tensor of the source becomes.
struct Item {
  const SourceTensor* source = nullptr;
  std::vector<float> values;  ///< of one without a source
  GgufPlannedTensor planned;
  std::optional<BlockType> blocks;  ///< of one that is kept as codes
  std::uint64_t interleaved = 0;    ///< rows of a head, where they are interleaved
  bool adds_one = false;
};

/// Where a row of the file comes from.
std::uint64_t source_row(const Item& item, std::uint64_t row) {
  return item.interleaved == 0 ? row : deinterleaved_row(row, item.interleaved);
}

const GgmlType& plain_type(DType dtype) {
  for (const GgmlType& type : ggml_types())
    if (type.plain == dtype) return type;
  return *find_ggml_type(0);  // F32: what values are widened to
}

bool has_plain_type(DType dtype) { return plain_type(dtype).plain == dtype; }

/// The file type that llama.cpp shows for a model most of whose tensors have that type (LLAMA_FTYPE).
std::optional<std::uint32_t> file_type(std::string_view type) {
  constexpr std::pair<std::string_view, std::uint32_t> kFileTypes[] = {
      {"F32", 0},   {"F16", 1},    {"Q4_0", 2},   {"Q4_1", 3},   {"Q8_0", 7},  {"Q5_0", 8}, {"Q5_1", 9},
      {"BF16", 32}, {"TQ2_0", 37}, {"MXFP4", 38}, {"NVFP4", 39}, {"Q1_0", 40}, {"Q2_0", 41}};
  for (const auto& [name, number] : kFileTypes)
    if (name == type) return number;
  return std::nullopt;
}

class GgufMaker {
 public:
  explicit GgufMaker(const TensorSource& source) : source_(source), network_(read_network_for_gguf(source)) {}

  GgufReport make(const fs::path& output) {
    report_.notes = network_.notes;
    plan_tensors();
    GgufPlan plan{.metadata = network_.metadata, .tensors = {}};
    put_types(plan.metadata);
    for (const Item& item : items_) plan.tensors.push_back(item.planned);
    GgufWriter writer(output, std::move(plan));
    for (const Item& item : items_) {
      check_interrupt();
      write(writer, item);
    }
    report_.bytes = writer.finish([&](const fs::path& written) { read_back(written); });
    return std::move(report_);
  }

 private:
  // --- the plan ---

  void plan_tensors() {
    const GgufArchitecture& architecture = *network_.architecture;
    for (const RopeTensor& tensor : network_.rope_tensors) {
      Item item;
      item.planned = {tensor.name, &plain_type(DType::kF32), {tensor.factors.size()}};
      item.values = tensor.factors;
      items_.push_back(std::move(item));
    }
    for (const SourceTensor& tensor : source_.tensors()) {
      const auto name = gguf_name(architecture, tensor.name);
      if (name == "output.weight" && network_.config.tied) {
        report_.notes.push_back(models::note_of_unused_head(tensor.name));
        continue;
      }
      if (!name && tensor.name.ends_with("rotary_emb.inv_freq"))
        continue;  // old files hold what follows from theta
      if (!name)
        throw Error("tensor " + quote_text(tensor.name) + " has no name in GGUF's architecture " +
                    std::string(architecture.name));
      plan_tensor(tensor, *name);
    }
    if (architecture.name == "gemma2" && !network_.config.tied)
      throw Error("its embeddings are not tied, which llama.cpp's gemma2 has no place for");
  }

  void plan_tensor(const SourceTensor& tensor, const std::string& name) {
    Item item;
    item.source = &tensor;
    item.planned.name = name;
    item.planned.shape = tensor.shape;
    if (interleaves_rows(*network_.architecture, name)) item.interleaved = network_.config.head_size;
    item.adds_one = network_.architecture->adds_one_to_norms && name.ends_with("norm.weight");
    if (item.interleaved != 0 && (tensor.shape.empty() || tensor.shape.size() > 2 ||
                                  tensor.shape[0] % item.interleaved != 0 || item.interleaved % 2 != 0))
      throw Error("tensor " + quote_text(tensor.name) + ": its shape is " + shape_text(tensor.shape) +
                  ", expected rows for heads of " + std::to_string(item.interleaved));
    const bool keeps_codes = !tensor.spec.empty() && tensor.shape.size() > 1 && !item.adds_one;
    if (keeps_codes) {
      plan_codes(item);
    } else {
      if (!is_floating(tensor.dtype) && !has_plain_type(tensor.dtype))
        throw Error("tensor " + quote_text(tensor.name) + " is " + std::string(dtype_name(tensor.dtype)) +
                    ", which GGUF has no type for");
      // llama.cpp computes with vectors in F32 alone.
      const bool stays =
          tensor.spec.empty() && !item.adds_one && has_plain_type(tensor.dtype) &&
          (tensor.shape.size() > 1 || dtype_bits(tensor.dtype) >= 32 || !is_floating(tensor.dtype));
      item.planned.type = &plain_type(stays ? tensor.dtype : DType::kF32);
      items_.push_back(std::move(item));
    }
  }

  void plan_codes(Item& item) {
    const SourceTensor& tensor = *item.source;
    const LoadedTensor loaded = load(tensor);
    const Result<BlockType> found = find_block_type(loaded.view());
    if (!found.ok())
      throw Error("tensor " + quote_text(tensor.name) + ", " + tensor.spec + ": " + found.failure().message);
    item.blocks = found.value();
    item.planned.type = found.value().type;
    const float scale = loaded.view().tensor_scale();
    const bool has_scale = found.value().type->name == "NVFP4" && scale != 1;
    const auto scale_name = gguf_scale_name(item.planned.name);
    if (has_scale && !scale_name)
      throw Error(
          "tensor " + quote_text(tensor.name) + ", " + tensor.spec +
          ": llama.cpp takes a scale for the tensor of the matrices of layers alone; the nearest that it "
          "takes is mxfp4");
    items_.push_back(item);
    if (!has_scale) return;
    Item beside;
    beside.planned = {*scale_name, &plain_type(DType::kF32), {1}};
    beside.values = {scale};
    items_.push_back(std::move(beside));
  }

  /// "general.file_type" and "general.quantization_version", behind "general.type".
  void put_types(std::vector<GgufPair>& metadata) {
    bool has_codes = false;
    for (const Item& item : items_) {
      ++report_.types[std::string(item.planned.type->name)];
      has_codes = has_codes || item.blocks;
    }
    std::map<std::string_view, std::uint64_t> weights;
    for (const Item& item : items_)
      if (item.planned.shape.size() > 1)
        weights[item.planned.type->name] += element_count(item.planned.shape).value();
    std::vector<GgufPair> added;
    const auto most = std::ranges::max_element(weights, {}, [](const auto& pair) { return pair.second; });
    if (most != weights.end())
      if (const auto number = file_type(most->first)) added.push_back({"general.file_type", *number});
    if (has_codes) added.push_back({"general.quantization_version", std::uint32_t{2}});
    metadata.insert(metadata.begin() + 2, added.begin(), added.end());
  }

  // --- the data ---

  LoadedTensor load(const SourceTensor& tensor) const {
    const CrumbFile& file = *source_.crumb();
    return LoadedTensor::load(file, *file.find(tensor.name)).take();
  }

  void write(GgufWriter& writer, const Item& item) {
    if (item.source == nullptr) {
      writer.append(std::as_bytes(std::span(item.values)));
    } else if (item.blocks) {
      write_codes(writer, item);
    } else if (item.planned.type->plain == DType::kF32) {
      write_floats(writer, item);
    } else {
      write_plain(writer, item);
    }
  }

  void write_codes(GgufWriter& writer, const Item& item) const {
    const LoadedTensor loaded = load(*item.source);
    const BlockRows rows(loaded.view(), *item.blocks, item.source->name);
    std::vector<std::byte> row(rows.row_bytes());
    for (std::uint64_t i = 0; i < loaded.view().layout.matrix.rows; ++i) {
      rows.encode(source_row(item, i), row);
      writer.append(row);
    }
    const CrumbFile& file = *source_.crumb();
    file.release(*file.find(item.source->name)->part(Part::kCodes));
  }

  /// Rows of elements; elements of a vector where they are reordered.
  template <class T, class Append>
  static void put_rows(const Item& item, std::span<const T> elements, const Append& append) {
    if (item.interleaved == 0) return append(elements);
    const std::uint64_t rows = item.planned.shape[0], cols = rows == 0 ? 0 : elements.size() / rows;
    for (std::uint64_t i = 0; i < rows; ++i) append(elements.subspan(source_row(item, i) * cols, cols));
  }

  void write_floats(GgufWriter& writer, const Item& item) const {
    if (item.interleaved == 0 && !item.adds_one) {
      const auto stream = source_.stream(*item.source);
      for (auto x = stream->next(kStreamPiece); !x.empty(); x = stream->next(kStreamPiece))
        writer.append(std::as_bytes(x));
      return;
    }
    std::vector<float> values = source_.floats(*item.source);
    if (item.adds_one)
      for (float& value : values) value += 1;
    put_rows(item, std::span<const float>(values),
             [&](std::span<const float> row) { writer.append(std::as_bytes(row)); });
  }

  void write_plain(GgufWriter& writer, const Item& item) const {
    const std::string& name = item.source->name;
    if (const CrumbFile* packed = source_.crumb()) {
      const PackedTensor& tensor = *packed->find(name);
      const BlobBytes bytes = packed->load(*tensor.part(Part::kData), part_text(tensor, Part::kData)).take();
      append_plain(writer, item, bytes.bytes());
    } else {
      const Checkpoint& checkpoint = *source_.checkpoint();
      append_plain(writer, item, checkpoint.load(*checkpoint.find(name)).take());
    }
  }

  static void append_plain(GgufWriter& writer, const Item& item, std::span<const std::byte> bytes) {
    put_rows(item, bytes, [&](std::span<const std::byte> row) { writer.append(row); });
  }

  // --- reading back ---

  void read_back(const fs::path& written) {
    const TensorSource found = TensorSource::open(written);
    expect_same_decoder(network_.config,
                        DecoderConfig::parse(JsonFile("config.json", file_text(found, "config.json"))));
    for (const SkippedEntry& skipped : found.checkpoint()->skipped())
      if (skipped.name != "tokenizer" || !file_text(source_, "tokenizer.json").empty())
        throw Error("the file that was written: " + skipped.name + ": " + skipped.what);
    std::uint64_t rounded = 0, norms = 0;
    for (const Item& item : items_) {
      if (item.source == nullptr) continue;
      const SourceTensor* tensor = found.find(item.source->name);
      if (tensor == nullptr || tensor->shape != item.source->shape)
        throw Error("the file that was written does not hold " + quote_text(item.source->name) +
                    " as it was meant");
      rounded += compare(item, *source_.stream(*item.source), *found.stream(*tensor));
      if (item.adds_one) norms += element_count(item.planned.shape).value();
    }
    if (rounded > 0)
      report_.notes.push_back(
          "norms are stored as one plus the gain, as llama.cpp wants them: " + std::to_string(rounded) +
          " of " + std::to_string(norms) + " gains change by rounding (what multiplies stays the same)");
  }

  /// Gives how many values rounding to one plus the value changed.
  static std::uint64_t compare(const Item& item, ValueStream& meant, ValueStream& found) {
    std::uint64_t at = 0, rounded = 0;
    for (;;) {
      const std::span<const float> a = meant.next(kStreamPiece), b = found.next(kStreamPiece);
      if (a.size() != b.size()) throw Error("tensor " + quote_text(item.source->name) + " ends early");
      if (a.empty()) return rounded;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const float plus_one = a[i] + 1;
        const float expected = item.adds_one ? plus_one - 1 : a[i];
        rounded += expected != a[i] ? 1 : 0;
        if (b[i] == expected || (std::isnan(b[i]) && std::isnan(expected))) continue;
        throw Error("tensor " + quote_text(item.source->name) + ": in the file that was written element " +
                    std::to_string(at + i) + " is " + number_text(b[i]) + ", expected " +
                    number_text(expected));
      }
      at += a.size();
    }
  }

  const TensorSource& source_;
  GgufNetwork network_;
  std::vector<Item> items_;
  GgufReport report_;
};

}  // namespace

GgufReport write_gguf(const TensorSource& source, const fs::path& output) {
  return GgufMaker(source).make(output);
}

}  // namespace crumb::exporting
