#include "quant/checkpoint/checkpoint_run.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "base/checksum.h"
#include "base/files/inputs.h"
#include "base/files/interrupt.h"
#include "base/files/output_place.h"
#include "base/files/partial.h"
#include "base/files/text.h"
#include "base/threads/background.h"
#include "formats/crumb_file/writer.h"
#include "quant/checkpoint/run_journal.h"
#include "quant/codes/code_layout.h"
#include "quant/distortion.h"
#include "quant/packed/packed_tensor.h"
#include "quant/slices/slice_quantizer.h"

namespace crumb {
namespace {

constexpr double kNothingLost = std::numeric_limits<double>::infinity();

RunIdentity identity_of(const Checkpoint& checkpoint, const RunPlan& run, const std::string& version) {
  return {.version = version,
          .work = "quantizes tensors one by one",
          .recipe = run.recipe,
          .plan = crc32_of(write_crumb_header(run.header)),
          .inputs = inputs_of(checkpoint)};
}

TensorReport report_of(const PlannedTensor& planned) {
  const TensorEntry& entry = *planned.entry;
  return {.name = entry.name,
          .shape = entry.shape,
          .dtype = entry.dtype,
          .spec = planned.spec ? planned.spec->to_string() : "",
          .kept_because = planned.kept_because};
}

/// Sums up the tensors of a report whose header is known.
void finish_report(CheckpointReport& report, const Checkpoint& checkpoint,
                   const std::vector<PlannedTensor>& plan, const CrumbHeader& header) {
  report.input_bytes = checkpoint.input_bytes();
  uint64_t quantized_bytes = 0, quantized_weights = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    report.tensors[i].bytes = header.tensors[i].stored_bytes();
    if (!plan[i].spec) continue;
    for (const auto& blob : header.tensors[i].parts) quantized_bytes += blob ? blob->raw : 0;
    quantized_weights += element_count(plan[i].entry->shape).take();
  }
  report.bits_per_weight = bits_per_weight(quantized_bytes, quantized_weights);
}

class CheckpointRun {
 public:
  CheckpointRun(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan, const RunPlan& run,
                const std::filesystem::path& output, const RunOptions& options)
      : checkpoint_(checkpoint),
        plan_(plan),
        run_(run),
        options_(options),
        zstd_(parse_recipe(run.recipe, "the recipe").zstd),
        writer_(output, run.header, zstd_, left_over(output, options)) {
    // A run that may be continued goes on until the disk is full.
    if (!options.resume && zstd_ == 0) require_space(output, run.output_bytes, run.output_bytes);
    const RunIdentity identity = identity_of(checkpoint, run, options.version);
    std::vector<JournalEntry> done;
    uint64_t journal_bytes = 0;
    if (options.resume) writer_.keep_partial();
    if (options.resume) done = take_over(output, identity, journal_bytes);
    journal_.emplace(output, identity, journal_bytes);
    journal_->keep(options.resume);
    for (const PlannedTensor& planned : plan) report_.tensors.push_back(report_of(planned));
    for (const JournalEntry& entry : done) note(entry);
    continued_ = done.size();
    if (options.resume && options.continuing) options.continuing(continued_);
  }

  CheckpointReport go() {
    read_quantize_write();
    for (const PackedFile& file : run_.header.files) {
      if (file.path == kRecipePath) {
        writer_.write(std::as_bytes(std::span(run_.recipe)));
      } else if (file.path == kCrumbGraphFile) {
        writer_.write(std::as_bytes(std::span(run_.structure)));
      } else {
        writer_.write(checkpoint_.find_file(file.path)->bytes);
      }
    }
    progress(plan_.size());
    report_.output_bytes = writer_.finish();
    finish_report(report_, checkpoint_, plan_, writer_.header());
    for (TensorReport& row : report_.tensors) row.is_measured = true;
    journal_->keep(false);
    return std::move(report_);
  }

 private:
  /// A partial file without a journal that describes it cannot be continued.
  static LeftOver left_over(const std::filesystem::path& output, const RunOptions& options) {
    return options.resume && RunJournal::read(output) ? LeftOver::kContinue : LeftOver::kDiscard;
  }

  /// Takes over the tensors that an earlier run finished, as far as their bytes are still there, and the
  /// length of its journal up to them.
  std::vector<JournalEntry> take_over(const std::filesystem::path& output, const RunIdentity& identity,
                                      uint64_t& journal_bytes) {
    std::optional<JournalContents> left = RunJournal::to_continue(output, identity);
    if (!left) return {};
    std::vector<JournalEntry> done;
    for (JournalEntry& entry : left->entries) {
      if (!writer_.take_over(entry.blobs)) break;
      journal_bytes = left->ends[done.size()];
      done.push_back(std::move(entry));
    }
    parts_down_ = writer_.done();
    return done;
  }

  void note(const JournalEntry& entry) {
    TensorReport& row = report_.tensors[entry.tensor];
    row.sqnr_db = entry.sqnr_db;
    row.max_abs_error = entry.max_abs_error;
    row.saturated_scales = entry.saturated_scales;
    bytes_done_ += plan_[entry.tensor].entry->bytes;
  }

  void progress(size_t tensors) const {
    if (options_.progress) options_.progress(tensors, bytes_done_);
  }

  void read_quantize_write() {
    const size_t first = continued_;
    SliceReader reader(checkpoint_, {run_.jobs.begin() + static_cast<ptrdiff_t>(first), run_.jobs.end()},
                       run_.most_waiting);
    Background writes(run_.most_waiting);
    for (size_t i = first; i < plan_.size(); ++i) {
      check_interrupt();
      progress(i);
      JournalEntry entry{.tensor = i, .blobs = {}, .sqnr_db = kNothingLost};
      if (plan_[i].spec) {
        quantize_tensor(reader, i - first, writes, entry);
      } else {
        keep_tensor(reader, i - first, writes);
      }
      writes.post(0, [this, entry] { write_down(entry); });
      note(entry);
    }
    writes.drain();
  }

  void keep_tensor(SliceReader& reader, size_t job, Background& writes) {
    for (auto slab = std::make_shared<Slab>(reader.next(job)); !slab->empty();
         slab = std::make_shared<Slab>(reader.next(job))) {
      check_interrupt();
      writes.post(slab->bytes().size(), [this, slab] { writer_.append(slab->bytes()); });
    }
    writes.post(0, [this] { writer_.end_part(); });
  }

  void quantize_tensor(SliceReader& reader, size_t job, Background& writes, JournalEntry& entry) {
    const PlannedTensor& planned = plan_[entry.tensor];
    EntryStream stream(reader, job, *planned.entry, options_.threads);
    DistortionSum distortion;
    const SliceSink sink = [&](std::span<const float> values, const QuantizedView& slice) {
      const auto codes = std::make_shared<CodeBytes>(planned.codes == CodeLayout::kTiles
                                                         ? codes_in_tiles(slice, options_.threads)
                                                         : CodeBytes(slice.codes.begin(), slice.codes.end()));
      writes.post(codes->size(), [this, codes] { writer_.append(*codes); });
      add_slice(distortion, values, slice, options_.threads);
    };
    const auto tensor = std::make_shared<QuantizedTensor>(
        quantize_slices(*planned.spec, planned.entry->shape, stream, run_.slices[entry.tensor], sink,
                        {.threads = options_.threads,
                         .name = planned.entry->name,
                         .narrowed = planned.entry->dtype == DType::kF64,
                         .stack_axes = planned.stack_axes,
                         .inputs_first = planned.inputs_first}));
    stream.finish();
    tensor->codes = {};
    if (planned.codes == CodeLayout::kTiles) {
      BlockParts blocks = blocks_in_layout(tensor->view(), planned.codes);
      tensor->scales = std::move(blocks.scales);
      tensor->zeros = std::move(blocks.zeros);
    }
    writes.post(tensor->scales.size() + tensor->zeros.size(), [this, tensor] {
      writer_.end_part();
      write_after_codes(writer_, *tensor);
    });
    entry.sqnr_db = distortion.result().sqnr_db;
    entry.max_abs_error = distortion.result().max_abs_error;
    entry.saturated_scales = tensor->saturated_scales;
  }

  /// Writes the entry into the journal, now that the tensor's parts are written.
  void write_down(JournalEntry entry) {
    for (size_t part = parts_down_; part < writer_.done(); ++part) entry.blobs.push_back(writer_.blob(part));
    parts_down_ = writer_.done();
    journal_->add(entry);
  }

  const Checkpoint& checkpoint_;
  const std::vector<PlannedTensor>& plan_;
  const RunPlan& run_;
  const RunOptions& options_;
  const int zstd_;
  CrumbWriter writer_;
  std::optional<RunJournal> journal_;
  size_t continued_ = 0;   ///< tensors that an earlier run had finished
  size_t parts_down_ = 0;  ///< parts that the journal has
  CheckpointReport report_;
  uint64_t bytes_done_ = 0;
};

}  // namespace

void refuse_overwriting_inputs(const std::vector<std::filesystem::path>& inputs,
                               const std::filesystem::path& output) {
  std::error_code ignored;
  refuse_these_inputs(
      inputs, output,
      {partial_path_of(std::filesystem::weakly_canonical(output, ignored)), RunJournal::path_of(output)});
}

CheckpointReport foresee_report(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan,
                                const RunPlan& run) {
  CheckpointReport report;
  for (const PlannedTensor& planned : plan) report.tensors.push_back(report_of(planned));
  report.output_bytes = run.output_bytes;
  finish_report(report, checkpoint, plan, run.header);
  return report;
}

CheckpointReport quantize_checkpoint(const Checkpoint& checkpoint, const std::vector<PlannedTensor>& plan,
                                     const RunPlan& run, const std::filesystem::path& output,
                                     const RunOptions& options) {
  refuse_overwriting_inputs(checkpoint.input_paths(), output);
  return CheckpointRun(checkpoint, plan, run, output, options).go();
}

}  // namespace crumb
