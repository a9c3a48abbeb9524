// The objective of sentence encoders: lines, whose vectors and whose tokens' states shall be the float
// network's.
#pragma once

#include <optional>

#include "tasks/language/objectives/objective.h"
#include "tasks/language/teachers/float_network.h"

namespace crumb::tasks {

class LinesObjective final : public Objective {
 public:
  /// Throws usage Error where the request asks for what only decoders have.
  explicit LinesObjective(const LanguageRequest& request);

  std::int64_t count() const override { return static_cast<std::int64_t>(request_.samples.lines.size()); }
  std::int64_t tokens_of(std::int64_t sample) const override;
  std::vector<std::vector<at::Tensor>> inputs_of_first(std::int64_t most) const override;
  void prepare(const Samples&) override {}
  double measure_floats() override {
    return request_.samples.valid_lines.empty() ? LanguageOutcome::kNotMeasured : 1;
  }
  double measure(Student& student) override;
  std::vector<LayerLine> train_layers(
      qat::Network& network, const std::function<void(const LayerLine&, std::int64_t)>& layer_done) override;
  double weight_of(const Samples& samples) const override { return static_cast<double>(samples.size()); }
  double gather(Student& student, const Samples& samples, double all) override;

 private:
  struct Given {
    at::Tensor states;   ///< [lines, longest, width]
    at::Tensor vectors;  ///< [lines, width]
  };
  Given given(const std::vector<at::Tensor>& outputs, const at::Tensor& mask) const;

  const LanguageRequest& request_;
  at::Device device_;
  FloatNetwork teacher_;
  std::size_t states_ = 0;              ///< index among the network's outputs
  std::optional<std::size_t> vectors_;  ///< likewise; none: the mean of a line's states
  std::size_t mask_ = 0;                ///< index among its inputs
};

}  // namespace crumb::tasks
