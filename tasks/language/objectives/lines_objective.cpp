#include "tasks/language/objectives/lines_objective.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "libtorch/device.h"
#include "models/encoder_inputs.h"
#include "tasks/language/steps/step_parts.h"
#include "tasks/language/text/language_loss.h"

namespace crumb::tasks {
namespace {

constexpr std::int64_t kMeasuredAtOnce = 32;  ///< lines

using Lines = std::vector<std::vector<std::int64_t>>;

std::vector<at::Tensor> tensors_of(const LanguageRequest& request, const Lines& lines, at::Device device) {
  std::vector<at::Tensor> tensors;
  for (const graph::Tensor& input : models::encoder_inputs(request.network, lines, request.samples.unpooled))
    tensors.push_back(libtorch::to_typed(input, device).tensor);
  return tensors;
}

Lines some_of(const Lines& lines, const Objective::Samples& samples) {
  Lines some;
  for (const std::int64_t sample : samples) some.push_back(lines[static_cast<std::size_t>(sample)]);
  return some;
}

std::size_t place_of(const std::vector<std::string>& names, const char* name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw Error(std::string("the network is no encoder's: it has no ") + name);
  return static_cast<std::size_t>(found - names.begin());
}

/// `mask`: 1 for tokens, 0 where a shorter line is filled up.
at::Tensor mean_over_tokens(const at::Tensor& values, const at::Tensor& mask) {
  const at::Tensor counts = mask.to(values.scalar_type());
  return (values * counts).sum(1) / counts.sum(1);
}

}  // namespace

LinesObjective::LinesObjective(const LanguageRequest& request)
    : request_(request),
      device_(libtorch::device_named(request.compute.device)),
      teacher_(request.network, device_),
      states_(place_of(request.network.outputs, "last_hidden_state")),
      mask_(place_of(request.network.inputs, "attention_mask")) {
  const auto& outputs = request.network.outputs;
  if (std::ranges::find(outputs, "sentence_embedding") != outputs.end())
    vectors_ = place_of(outputs, "sentence_embedding");
}

std::int64_t LinesObjective::tokens_of(std::int64_t sample) const {
  return static_cast<std::int64_t>(request_.samples.lines[static_cast<std::size_t>(sample)].size());
}

std::vector<std::vector<at::Tensor>> LinesObjective::inputs_of_first(std::int64_t most) const {
  std::vector<std::vector<at::Tensor>> found;
  for (std::int64_t i = 0; i < std::min(most, count()); ++i)
    found.push_back(tensors_of(request_, some_of(request_.samples.lines, {i}), at::kCPU));
  return found;
}

std::vector<LayerLine> LinesObjective::train_layers(
    qat::Network&, const std::function<void(const LayerLine&, std::int64_t)>&) {
  return {};  // the constructor refuses it
}

LinesObjective::Given LinesObjective::given(const std::vector<at::Tensor>& outputs,
                                            const at::Tensor& mask) const {
  const at::Tensor& states = outputs.at(states_);
  return {states, vectors_ ? outputs.at(*vectors_) : mean_over_tokens(states, mask.unsqueeze(-1))};
}

double LinesObjective::gather(Student& student, const Samples& samples, double all) {
  const std::vector<at::Tensor> inputs =
      tensors_of(request_, some_of(request_.samples.lines, samples), device_);
  const Given meant = given(teacher_.outputs(inputs), inputs[mask_]);
  const Given found = given(student.outputs(inputs, true), inputs[mask_]);
  at::Tensor loss = at::zeros({}, found.states.options());
  const bool is_mix = request_.supervision.loss == LanguageLoss::kMix;
  if (request_.supervision.loss != LanguageLoss::kCosine)
    loss = loss + mean_over_tokens(relative_errors(found.states, meant.states), inputs[mask_]).sum();
  if (request_.supervision.loss != LanguageLoss::kHidden)
    loss = loss + (1 - at::cosine_similarity(found.vectors, meant.vectors, -1)).sum();
  loss = loss / (is_mix ? 2 * all : all);
  loss.backward();
  return loss.item<double>();
}

double LinesObjective::measure(Student& student) {
  if (request_.samples.valid_lines.empty()) return LanguageOutcome::kNotMeasured;
  const torch::NoGradGuard no_gradients;
  Samples all(request_.samples.valid_lines.size());
  std::iota(all.begin(), all.end(), std::int64_t{0});
  std::vector<std::int64_t> lengths;
  for (const auto& line : request_.samples.valid_lines)
    lengths.push_back(static_cast<std::int64_t>(line.size()));
  double sum = 0;
  for (const Samples& part : parts_of_step(all, lengths, kMeasuredAtOnce, part_cost_on(device_.is_cpu()))) {
    check_interrupt();
    const std::vector<at::Tensor> inputs =
        tensors_of(request_, some_of(request_.samples.valid_lines, part), device_);
    const Given meant = given(teacher_.outputs(inputs), inputs[mask_]),
                found = given(student.outputs(inputs, false), inputs[mask_]);
    sum += at::cosine_similarity(found.vectors, meant.vectors, -1).sum().item<double>();
  }
  return sum / static_cast<double>(request_.samples.valid_lines.size());
}

}  // namespace crumb::tasks
