#include "tasks/language/objectives/text_objective.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "libtorch/device.h"
#include "tasks/language/student/block_wise.h"
#include "tasks/language/text/decoder_inputs.h"
#include "tasks/language/text/language_loss.h"

namespace crumb::tasks {
namespace {

LanguageText sequence_of(const Sequences& sequences, std::int64_t sequence) {
  LanguageText text;
  sequences.append(sequence, text);
  return text;
}

/// Returns the positions, as indices into the concatenated rows, that predict a token that counts: the ones
/// before.
at::Tensor predicting(const LanguageText& text) {
  std::vector<std::int64_t> positions;
  for (std::size_t i = 1; i < text.counts.size(); ++i)
    if (text.counts[i] != 0) positions.push_back(static_cast<std::int64_t>(i) - 1);
  return at::tensor(positions, at::kLong);
}

/// A file's predictions for a batch.
class KeptTargets final : public Targets {
 public:
  KeptTargets(const KeptTeacher& teacher, const std::vector<std::int64_t>& sequences)
      : teacher_(teacher), sequences_(sequences) {}
  at::Tensor divergence(const at::Tensor& logits, const at::Tensor& positions) const override {
    return teacher_.divergence(logits, sequences_, positions);
  }

 private:
  const KeptTeacher& teacher_;
  const std::vector<std::int64_t>& sequences_;
};

}  // namespace

TextObjective::TextObjective(const LanguageRequest& request, const LanguageHooks& hooks)
    : request_(request),
      hooks_(hooks),
      device_(libtorch::device_named(request.compute.device)),
      sequences_(request.samples.text, request.samples.first, request.samples.length,
                 "the text to train by") {
  if (!request.samples.valid.empty())
    valid_.emplace(request.samples.valid, request.samples.first, request.samples.length,
                   "the text to measure by");
  if (request.supervision.has_floats && (request.supervision.loss != LanguageLoss::kNextToken || valid_))
    teacher_.emplace(request.network, device_);
}

std::vector<at::Tensor> TextObjective::inputs_of(const LanguageText& sequences, std::int64_t batch) const {
  return decoder_tensors(request_.network, sequences, batch, device_);
}

LanguageText TextObjective::text_of(const Samples& samples) const {
  LanguageText text;
  for (const std::int64_t sample : samples) sequences_.append(sample, text);
  return text;
}

std::vector<std::vector<at::Tensor>> TextObjective::inputs_of_first(std::int64_t most) const {
  std::vector<std::vector<at::Tensor>> found;
  for (std::int64_t i = 0; i < std::min(most, count()); ++i)
    found.push_back(decoder_tensors(request_.network, sequence_of(sequences_, i), 1));
  return found;
}

void TextObjective::prepare(const Samples& wanted) {
  const bool is_kept = !request_.supervision.teacher.file.empty();
  if (is_kept)
    kept_teacher_.emplace(request_, sequences_, wanted, teacher_ ? &*teacher_ : nullptr,
                          hooks_.news.predicted);
  if (is_kept || request_.supervision.loss == LanguageLoss::kNextToken) teacher_.reset();
}

std::vector<LayerLine> TextObjective::train_layers(
    qat::Network& network, const std::function<void(const LayerLine&, std::int64_t)>& layer_done) {
  return train_block_wise(request_, sequences_, network, layer_done);
}

double TextObjective::weight_of(const Samples& samples) const {
  return static_cast<double>(predicting(text_of(samples)).numel());
}

double TextObjective::gather(Student& student, const Samples& samples, double all) {
  const LanguageText text = text_of(samples);
  const std::vector<at::Tensor> inputs = inputs_of(text, static_cast<std::int64_t>(samples.size()));
  libtorch::CutPass pass = student.pass(inputs, true);
  std::unique_ptr<Targets> targets;
  if (kept_teacher_) targets = std::make_unique<KeptTargets>(*kept_teacher_, samples);
  if (teacher_)
    targets = std::make_unique<LiveTargets>(teacher_->pass(inputs), request_.supervision.temperature);
  const double loss =
      gather_language_loss(pass, targets.get(), {.loss = request_.supervision.loss, .all_positions = all},
                           inputs.at(0), predicting(text).to(device_));
  pass.backward();
  return loss;
}

double TextObjective::measure_floats() {
  if (!valid_ || !teacher_) return LanguageOutcome::kNotMeasured;
  return perplexity([&](const auto& inputs) { return teacher_->pass(inputs); });
}

double TextObjective::measure(Student& student) {
  if (!valid_) return LanguageOutcome::kNotMeasured;
  return perplexity([&](const auto& inputs) { return student.pass(inputs, false); });
}

template <class Pass>
double TextObjective::perplexity(const Pass& pass_of) const {
  const torch::NoGradGuard no_gradients;
  double sum = 0, positions_of_all = 0;
  for (std::int64_t i = 0; i < valid_->count(); ++i) {
    check_interrupt();
    const LanguageText sequence = sequence_of(*valid_, i);
    const at::Tensor positions = predicting(sequence).to(device_);
    if (positions.numel() == 0) continue;
    const std::vector<at::Tensor> inputs = inputs_of(sequence, 1);
    sum += summed_next_token_loss(pass_of(inputs), inputs.at(0), positions);
    positions_of_all += static_cast<double>(positions.numel());
  }
  return positions_of_all > 0 ? std::exp(sum / positions_of_all) : LanguageOutcome::kNotMeasured;
}

}  // namespace crumb::tasks
