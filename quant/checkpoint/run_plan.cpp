#include "quant/checkpoint/run_plan.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files/process_memory.h"
#include "base/threads/parallel.h"
#include "formats/crumb_file/writer.h"
#include "quant/packed/packed_tensor.h"
#include "quant/slices/slice_quantizer.h"

namespace crumb {
namespace {

constexpr uint64_t kMega = 1'000'000;
constexpr uint64_t kSliceValues = uint64_t{1} << 20;  // 4 MiB of float32: slices stay in the caches
constexpr uint64_t kLeastSliceValues = uint64_t{1} << 16;
constexpr uint64_t kKeptSliceBytes =
    sizeof(float);                       // a kept tensor's slice has as many bytes as the floats of a slice
constexpr uint64_t kSlack = 20 * kMega;  // tables, decoded values, what the allocator does not give back
constexpr uint64_t kPerThread = kMega;   // stacks and rows
constexpr uint64_t kPerTensor = 2000;    // a second header, the report
constexpr uint64_t kUnlike = 2 * kMega;  // by which two processes differ when they begin

/// Returns the architecture that a configuration names, for the header.
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

CrumbHeader packed_header(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan,
                          const std::string& recipe, const std::string& structure) {
  CrumbHeader header;
  header.model = architecture(checkpoint);
  for (const PlannedTensor& planned : plan) {
    const TensorEntry& entry = *planned.entry;
    if (planned.spec) {
      header.tensors.push_back(plan_encoded(entry.name, entry.dtype, entry.shape, planned.spec->to_string(),
                                            planned.encoding(*planned.spec)));
    } else {
      PackedTensor kept;
      kept.name = entry.name;
      kept.dtype = entry.dtype;
      kept.shape = entry.shape;
      header.tensors.push_back(std::move(kept));
    }
  }
  for (const ModelFile& file : checkpoint.files()) {
    if (file.path != kRecipePath && file.path != kCrumbGraphFile)
      header.files.push_back({file.path, Blob{.raw = file.bytes.size()}});
  }
  if (!structure.empty())
    header.files.push_back({std::string(kCrumbGraphFile), Blob{.raw = structure.size()}});
  header.files.push_back({std::string(kRecipePath), Blob{.raw = recipe.size()}});
  std::ranges::sort(header.files, {}, &PackedFile::path);
  return header;
}

/// The number of values in a slice of this tensor, and the slice's bytes in the file.
struct Cut {
  uint64_t values = 0;
  uint64_t bytes = 0;
};

Cut cut(const PlannedTensor& planned, uint64_t requested) {
  const TensorEntry& entry = *planned.entry;
  const unsigned bits = dtype_bits(entry.dtype);
  if (!planned.spec) {
    const uint64_t bytes = requested * kKeptSliceBytes / 24 * 24;  // whole elements of every type
    return {0, std::min(bytes, entry.bytes)};
  }
  const SliceSize size = slice_size(*planned.spec, entry.shape, requested, planned.codes, planned.stack_axes);
  if (size.values == 0) return {};
  const uint64_t all = entry.bytes * 8 / bits;
  uint64_t values = size.values;
  if (bits < 8 && planned.stack_axes == 0) {  // slices end on whole bytes, as matrices of stacks do
    const uint64_t unit = size.unit * 8;
    values = std::min(std::max(requested / unit, uint64_t{1}) * unit, all);
  }
  return {values, values * bits / 8};
}

/// Returns the bytes that quantizing such a tensor holds in addition to the slice as it was read.
uint64_t quantizing_bytes(const PlannedTensor& planned, const Cut& slice) {
  if (!planned.spec) return 0;
  const TensorEntry& entry = *planned.entry;
  const uint64_t widened = entry.dtype == DType::kF32 ? 0 : slice.values * sizeof(float);
  const uint64_t codes = slice.values;  // handed to the writer
  return widened + codes +
         slice_working_bytes(*planned.spec, entry.shape, slice.values, planned.stack_axes,
                             planned.inputs_first);
}

uint64_t largest_part(const PackedTensor& packed) {
  uint64_t largest = 0;
  for (const auto& blob : packed.parts) {
    if (blob) largest = std::max(largest, blob->raw);
  }
  return largest;
}

/// Returns the bytes of scales and zero points of one tensor, which wait to be written while the next is
/// quantized.
uint64_t waiting_bytes(const PlannedTensor& planned) {
  if (!planned.spec) return 0;
  const EncodedLayout layout = encoded_layout(planned.encoding(*planned.spec), planned.entry->shape).take();
  const uint64_t blocks = layout.total_bytes() - layout.codes_bytes;
  return planned.codes == CodeLayout::kRows ? blocks : 2 * blocks;  // also once in the order of the file
}

struct Need {
  uint64_t peak = 0;
  uint64_t most_waiting = 0;
};

class RunPlanner {
 public:
  RunPlanner(const std::vector<PlannedTensor>& plan, const CrumbHeader& header, int zstd, int threads,
             uint64_t base)
      : plan_(plan),
        header_(header),
        zstd_(zstd),
        threads_(threads),
        base_(base > 0 ? base : baseline_bytes()),
        header_bytes_(2 * write_crumb_header(header).size() + header.tensors.size() * kPerTensor) {}

  /// Returns the resident memory of a run with slices of about this many values.
  Need need(uint64_t requested) const {
    // One tensor may be read while another is quantized and a third is written: each stage has its own
    // maximum.
    uint64_t slice_bytes = 0, reading = 0, quantizing = 0, compressing = 0, before = 0;
    for (size_t i = 0; i < plan_.size(); ++i) {
      const Cut slice = cut(plan_[i], requested);
      slice_bytes = std::max(slice_bytes, slice.bytes);
      reading = std::max(reading, TensorReader::resident_bytes(*plan_[i].entry));
      quantizing = std::max(quantizing, before + quantizing_bytes(plan_[i], slice));
      if (zstd_ > 0) compressing = std::max(compressing, largest_part(header_.tensors[i]));
      before = waiting_bytes(plan_[i]);
    }
    Need need;
    need.most_waiting = std::max(2 * slice_bytes, uint64_t{1} << 16);
    // Read: the waiting slices, one at work, and one whose memory is used again. As much may wait to be
    // written.
    const uint64_t work = 2 * need.most_waiting + 2 * slice_bytes + reading + quantizing + compressing +
                          zstd_working_bytes(zstd_);
    const uint64_t fixed = kSlack + static_cast<uint64_t>(threads_) * kPerThread + header_bytes_;
    need.peak = std::max(peak_resident_bytes(), base_ + fixed + work);
    return need;
  }

 private:
  const std::vector<PlannedTensor>& plan_;
  const CrumbHeader& header_;
  const int zstd_;
  const int threads_;
  const uint64_t base_;
  const uint64_t header_bytes_;  ///< what is held for every tensor, however small
};

std::string mega_text(uint64_t bytes) { return std::to_string((bytes + kMega - 1) / kMega) + " MB"; }

}  // namespace

RunPlan plan_run(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan, const Recipe& recipe,
                 uint64_t memory, int threads, uint64_t base, std::string structure) {
  RunPlan run;
  run.recipe = to_yaml(recipe);
  run.structure = std::move(structure);
  run.header = packed_header(checkpoint, plan, run.recipe, run.structure);
  run.output_bytes = place_uncompressed(run.header);

  uint64_t limit = memory;
  if (limit == 0) {
    uint64_t largest = 0;
    for (const PlannedTensor& planned : plan) largest = std::max(largest, planned.entry->bytes);
    limit = 2 * largest + 200 * kMega;
  }
  const RunPlanner planner(plan, run.header, recipe.zstd, threads > 0 ? threads : default_threads(), base);
  uint64_t requested = kSliceValues;
  Need need = planner.need(requested);
  while (need.peak > limit && requested > kLeastSliceValues) need = planner.need(requested /= 2);
  if (need.peak > limit && memory != 0) {
    throw usage_error("a memory of " + mega_text(memory) + " is too little for this run; the least is " +
                      mega_text(need.peak + kUnlike));
  }
  for (const PlannedTensor& planned : plan) {
    const Cut slice = cut(planned, requested);
    run.slices.push_back(slice.values);
    run.jobs.push_back({planned.entry, slice.bytes});
  }
  run.most_waiting = need.most_waiting;
  run.peak_memory_bytes = need.peak;
  return run;
}

}  // namespace crumb
