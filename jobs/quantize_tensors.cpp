#include <algorithm>

#include "base/files/process_memory.h"
#include "base/files/text.h"
#include "base/within.h"
#include "jobs/checkpoint_notes.h"
#include "jobs/quantize_parts.h"
#include "models/checkpoint_structure.h"
#include "models/tied_head.h"
#include "quant/checkpoint/checkpoint_run.h"

namespace crumb::jobs {
namespace {

void note_rounded(const std::vector<TensorReport>& tensors, Notes& notes) {
  const auto rounded = std::ranges::count_if(tensors, [](const TensorReport& tensor) {
    return !tensor.spec.empty() && tensor.dtype == DType::kF64;
  });
  if (rounded > 0)
    notes.say(std::to_string(rounded) + " F64 tensors are rounded to float32 before quantization");
}

CheckpointReport run(const QuantizeRequest& request, const Checkpoint& checkpoint,
                     const std::vector<PlannedTensor>& plan, const RunPlan& run_plan, Observer& observer) {
  RunOptions wanted{.threads = request.threads, .resume = request.resume, .version = CRUMB_VERSION};
  std::uint64_t all = 0;  // bytes as they are read: another tool's blocks of codes count as floats
  for (const PlannedTensor& tensor : plan) all += tensor.entry->bytes;
  wanted.progress = [&](std::size_t tensors, std::uint64_t bytes) {
    observer.progress({.what = "quantizing",
                       .items = "tensors",
                       .done = tensors,
                       .all = plan.size(),
                       .bytes = bytes,
                       .all_bytes = all});
  };
  wanted.continuing = [&](std::size_t tensors) {
    observer.note(tensors > 0 ? "continuing after " + std::to_string(tensors) +
                                    " tensors that an earlier run finished"
                              : "there is nothing to continue; starting afresh");
  };
  const ProgressScope scope(observer);
  return quantize_checkpoint(checkpoint, plan, run_plan, request.output, wanted);
}

}  // namespace

void note_saturated(const std::vector<TensorReport>& tensors, Notes& notes) {
  std::uint64_t saturated = 0;
  for (const TensorReport& tensor : tensors) saturated += tensor.saturated_scales;
  if (saturated > 0)
    notes.say(std::to_string(saturated) + " scales did not fit their format and were saturated");
}

Checkpoint open_checkpoint(const std::string& input, const std::string& key) {
  Checkpoint checkpoint = Checkpoint::open(input, {.key = key}).take();
  try {
    models::expect_tied_head(checkpoint);
  } catch (const Error& error) {
    throw within_file(quote_text(input), error);
  }
  return checkpoint;
}

std::string stored_structure(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan,
                             const SpecOrKeep& kv_cache) {
  Result<std::string> structure = models::structure_of(checkpoint, plan, kv_cache);
  if (!structure.ok() && kv_cache)
    throw usage_error("kv_cache: " + kv_cache->to_string() + ": " + structure.failure().message);
  return structure.ok() ? structure.take() : std::string();
}

QuantizeReport quantize_tensors(const QuantizeRequest& request, Observer& observer) {
  if (request.output.empty() && !request.dry_run)
    throw usage_error("quantize needs an output, the packed file to write, or a dry run");
  const Checkpoint checkpoint = open_checkpoint(request.input, request.key);
  Notes notes(observer);
  note_reading(checkpoint, observer);
  note_folder(checkpoint, notes);
  if (!request.output.empty()) {
    std::vector<std::filesystem::path> inputs = checkpoint.input_paths();
    std::ranges::copy(request.read_files, std::back_inserter(inputs));
    refuse_overwriting_inputs(inputs, request.output);
  }
  const std::uint64_t base = baseline_bytes();
  const std::vector<PlannedTensor> plan = plan_checkpoint(checkpoint, request.recipe);
  const RunPlan run_plan = plan_run(checkpoint, plan, request.recipe, request.memory, request.threads, base,
                                    stored_structure(checkpoint, plan, request.recipe.kv_cache));
  CheckpointReport made = request.dry_run ? foresee_report(checkpoint, plan, run_plan)
                                          : run(request, checkpoint, plan, run_plan, observer);
  note_rounded(made.tensors, notes);
  note_saturated(made.tensors, notes);
  return {.input = request.input,
          .output = request.output,
          .foreseen = request.dry_run,
          .upper_bound = request.dry_run && request.recipe.zstd > 0,
          .tensors = std::move(made.tensors),
          .input_bytes = made.input_bytes,
          .output_bytes = made.output_bytes,
          .bits_per_weight = made.bits_per_weight,
          .peak_bytes = request.dry_run ? run_plan.peak_memory_bytes : peak_resident_bytes(),
          .skipped = checkpoint.skipped(),
          .dequantized = checkpoint.dequantized(),
          .notes = notes.all(),
          .recipe = request.recipe,
          .plan = {},
          .stages = {},
          .biases = {},
          .comparison = {}};
}

}  // namespace crumb::jobs
