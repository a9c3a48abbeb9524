#include "quant/budget/measure.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "quant/checkpoint/checkpoint_plan.h"
#include "quant/checkpoint/run_plan.h"
#include "quant/distortion.h"
#include "quant/slices/slice_quantizer.h"

namespace crumb {
namespace {

/// Formats of one tensor that are cut alike, one after the other: one job of the reader.
struct Batch {
  size_t tensor;
  size_t first, last;  ///< indices in `candidates`
};

/// A planned tensor for each format that fits it.
struct Candidates {
  std::vector<PlannedTensor> plan;
  std::vector<size_t> tensor;  ///< the tensor's index
};

std::vector<QuantSpec> fitting(const TensorEntry& entry, const TensorClass& known,
                               std::span<const QuantSpec> formats) {
  std::vector<QuantSpec> fit;
  std::string why;
  for (const QuantSpec& format : formats) {
    if (const auto misfit = format.misfit(entry.shape, known.stack_axes, known.inputs_first)) {
      why += "\n  " + format.to_string() + ": " + *misfit;
    } else {
      fit.push_back(format);
    }
  }
  if (!fit.empty()) return fit;
  throw Error("none of the formats fits tensor " + quote_text(entry.name) + ":" + why +
              "\nname one that fits (with ':pad' a last group may be smaller), or give this tensor a spec "
              "of its own with --set, or keep it with --exclude");
}

MeasuredFormat measure(const PlannedTensor& candidate, ValueStream& values, uint64_t slice_values,
                       int threads) {
  const TensorEntry& entry = *candidate.entry;
  DistortionSum sum;
  const QuantizedTensor tensor =
      quantize_slices(*candidate.spec, entry.shape, values, slice_values,
                      [&](std::span<const float> slice, const QuantizedView& codes) {
                        add_slice(sum, slice, codes, threads);
                      },
                      {.threads = threads,
                       .name = entry.name,
                       .narrowed = entry.dtype == DType::kF64,
                       .stack_axes = candidate.stack_axes,
                       .inputs_first = candidate.inputs_first});
  const Distortion lost = sum.result();
  return {.spec = *candidate.spec,
          .bytes = tensor.layout.total_bytes(),
          .loss = std::pow(10.0, -lost.sqnr_db / 10),
          .sqnr_db = lost.sqnr_db,
          .max_abs_error = lost.max_abs_error,
          .saturated_scales = tensor.saturated_scales};
}

}  // namespace

std::vector<std::vector<MeasuredFormat>> measure_formats(const Checkpoint& checkpoint,
                                                         std::span<const TensorEntry* const> tensors,
                                                         std::span<const QuantSpec> formats,
                                                         const MeasureOptions& options) {
  Candidates candidates;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorClass known = class_of(*tensors[i], checkpoint.config());
    for (const QuantSpec& spec : fitting(*tensors[i], known, formats)) {
      candidates.plan.push_back({.entry = tensors[i],
                                 .spec = spec,
                                 .kept_because = "",
                                 .stack_axes = known.stack_axes,
                                 .inputs_first = known.inputs_first});
      candidates.tensor.push_back(i);
    }
  }
  // A run over all candidates would hold more than this work does, because it would write, too.
  const RunPlan run = plan_run(checkpoint, candidates.plan, Recipe{}, options.memory, options.threads);
  std::vector<Batch> batches;
  std::vector<SliceJob> jobs;
  for (size_t i = 0; i < candidates.plan.size(); ++i) {
    if (i > 0 && candidates.tensor[i] == candidates.tensor[i - 1] && run.slices[i] == run.slices[i - 1]) {
      batches.back().last = i;
      continue;
    }
    batches.push_back({candidates.tensor[i], i, i});
    jobs.push_back(run.jobs[i]);
  }
  std::vector<std::vector<MeasuredFormat>> measured(tensors.size());
  SliceReader reader(checkpoint, jobs, run.most_waiting);
  MeasureProgress done{.all_tensors = tensors.size()};
  for (const TensorEntry* entry : tensors) done.all_bytes += entry->bytes;
  const auto tell = [&] {
    if (options.progress) options.progress(done);
  };
  for (size_t job = 0; job < batches.size(); ++job) {
    const auto& [tensor, first, last] = batches[job];
    if (measured[tensor].empty()) tell();
    EntryStream stream(reader, job, *tensors[tensor], options.threads);
    for (size_t i = first; i <= last; ++i) {
      check_interrupt();
      stream.rewind();
      measured[tensor].push_back(measure(candidates.plan[i], stream, run.slices[i], options.threads));
    }
    stream.finish();
    if (job + 1 < batches.size() && batches[job + 1].tensor == tensor) continue;
    ++done.tensors;
    done.bytes += tensors[tensor]->bytes;
  }
  tell();
  return measured;
}

}  // namespace crumb
