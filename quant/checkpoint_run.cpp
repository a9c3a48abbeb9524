#include "quant/checkpoint_run.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "formats/crumb_file/writer.h"
#include "formats/io/interrupt.h"
#include "formats/io/text.h"
#include "quant/distortion.h"
#include "quant/packed_tensor.h"
#include "quant/quantizer.h"

namespace crumb {
namespace {

constexpr uint64_t kChunkValues = uint64_t{1} << 20;

/// A tensor's values as float32: in place where they lie so already, else widened.
class FloatValues {
 public:
  FloatValues(const Checkpoint& checkpoint, const TensorEntry& entry) {
    const uint64_t count = entry.bytes * 8 / dtype_bits(entry.dtype);
    owned_.resize(count);
    widen_to_float(entry.dtype, checkpoint.load(entry).take(), owned_);
    values_ = owned_;
  }
  std::span<const float> values() const { return values_; }

 private:
  std::vector<float> owned_;
  std::span<const float> values_;
};

Distortion distortion_of(const QuantizedTensor& tensor, std::span<const float> values, int threads) {
  const RowDecoder decoder(tensor.view());
  DistortionSum sum;
  const uint64_t cols = decoder.cols();
  const uint64_t rows_at_once = cols == 0 ? 1 : std::max<uint64_t>(1, kChunkValues / cols);
  std::vector<float> decoded;
  for (uint64_t row = 0; row < decoder.rows(); row += rows_at_once) {
    const uint64_t rows = std::min(rows_at_once, decoder.rows() - row);
    decoded.resize(rows * cols);
    decode_rows(decoder, row, decoded, threads);
    sum.add(values.subspan(row * cols, rows * cols), decoded, threads);
  }
  return sum.result();
}

/// The architecture that a configuration names, for the header.
std::string architecture(const Checkpoint& checkpoint) {
  const nlohmann::json* config = checkpoint.config();
  if (!config) return "";
  if (const auto names = config->find("architectures");
      names != config->end() && names->is_array() && !names->empty() && names->front().is_string()) {
    return names->front().get<std::string>();
  }
  const auto type = config->find("model_type");
  return type != config->end() && type->is_string() ? type->get<std::string>() : "";
}

CrumbHeader packed_plan(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan) {
  CrumbHeader header;
  header.model = architecture(checkpoint);
  for (const PlannedTensor& planned : plan) {
    const TensorEntry& entry = *planned.entry;
    if (planned.spec) {
      header.tensors.push_back(plan_encoded(entry.name, entry.dtype, entry.shape, planned.spec->to_string(),
                                            planned.spec->encoding(entry.shape)));
    } else {
      PackedTensor kept;
      kept.name = entry.name;
      kept.dtype = entry.dtype;
      kept.shape = entry.shape;
      header.tensors.push_back(std::move(kept));
    }
  }
  for (const ModelFile& file : checkpoint.files()) {
    header.files.push_back({file.path, Blob{.raw = file.bytes.size()}});
  }
  return header;
}

}  // namespace

void refuse_overwriting_inputs(const std::vector<std::filesystem::path>& inputs,
                               const std::filesystem::path& output) {
  std::error_code ignored;
  std::filesystem::path partial = std::filesystem::weakly_canonical(output, ignored);
  partial += ".partial";  // what OutputFile writes first
  for (const std::filesystem::path& input : inputs) {
    if (std::filesystem::equivalent(input, output, ignored)) {
      throw usage_error("the output " + quote_text(output.string()) +
                        " is one of the inputs; inputs are never modified");
    }
    if (std::filesystem::equivalent(input, partial, ignored)) {
      throw usage_error("the output " + quote_text(output.string()) + " is first written as " +
                        quote_text(partial.string()) +
                        ", which is one of the inputs; inputs are never modified");
    }
  }
}

CheckpointReport quantize_checkpoint(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan,
                                     const std::filesystem::path& output, const RunOptions& options) {
  refuse_overwriting_inputs(checkpoint.input_paths(), output);
  CrumbWriter writer(output, packed_plan(checkpoint, plan), options.zstd_level);
  CheckpointReport report;
  report.input_bytes = checkpoint.input_bytes();
  uint64_t bytes_done = 0, quantized_bytes = 0, quantized_weights = 0;
  const auto progress = [&] {
    if (options.progress) options.progress(report.tensors.size(), bytes_done);
  };
  for (const PlannedTensor& planned : plan) {
    check_interrupt();
    progress();
    const TensorEntry& entry = *planned.entry;
    TensorReport& row = report.tensors.emplace_back();
    row.name = entry.name;
    row.shape = entry.shape;
    row.dtype = entry.dtype;
    row.sqnr_db = std::numeric_limits<double>::infinity();
    row.kept_because = planned.kept_because;
    if (planned.spec) {
      const FloatValues source(checkpoint, entry);
      const QuantizedTensor tensor = quantize(*planned.spec, source.values(), entry.shape,
                                              {.threads = options.threads, .name = entry.name});
      write_encoded(writer, tensor);
      const Distortion distortion = distortion_of(tensor, source.values(), options.threads);
      row.spec = tensor.spec;
      row.sqnr_db = distortion.sqnr_db;
      row.max_abs_error = distortion.max_abs_error;
      row.saturated_scales = tensor.saturated_scales;
      quantized_bytes += tensor.layout.total_bytes();
      quantized_weights += tensor.layout.matrix.size();
    } else {
      writer.write(checkpoint.load(entry).take());
    }
    row.bytes = writer.header().tensors[report.tensors.size() - 1].stored_bytes();
    bytes_done += entry.bytes;
  }
  for (const ModelFile& file : checkpoint.files()) writer.write(file.bytes);
  progress();
  report.output_bytes = writer.finish();
  report.bits_per_weight = bits_per_weight(quantized_bytes, quantized_weights);
  return report;
}

}  // namespace crumb
