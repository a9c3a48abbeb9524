// The objective of decoders: the sequences of a text, each token predicted from those before it.
#pragma once

#include <optional>

#include "tasks/language/objectives/objective.h"
#include "tasks/language/teachers/float_network.h"
#include "tasks/language/teachers/kept_teacher.h"
#include "tasks/language/text/sequences.h"

namespace crumb::tasks {

class TextObjective final : public Objective {
 public:
  /// Throws Error where a text is shorter than a sequence, and usage Error where the teacher's file is for
  /// another loss.
  TextObjective(const LanguageRequest& request, const LanguageHooks& hooks);

  std::int64_t count() const override { return sequences_.count(); }
  std::int64_t tokens_of(std::int64_t) const override { return request_.samples.length; }
  std::vector<std::vector<at::Tensor>> inputs_of_first(std::int64_t most) const override;
  void prepare(const Samples& wanted) override;
  double measure_floats() override;
  double measure(Student& student) override;
  std::vector<LayerLine> train_layers(
      qat::Network& network, const std::function<void(const LayerLine&, std::int64_t)>& layer_done) override;
  double weight_of(const Samples& samples) const override;
  double gather(Student& student, const Samples& samples, double all) override;

 private:
  std::vector<at::Tensor> inputs_of(const LanguageText& sequences, std::int64_t batch) const;
  LanguageText text_of(const Samples& samples) const;
  template <class Pass>
  double perplexity(const Pass& pass_of) const;

  const LanguageRequest& request_;
  const LanguageHooks& hooks_;
  at::Device device_;
  Sequences sequences_;
  std::optional<Sequences> valid_;
  std::optional<FloatDecoder> teacher_;
  std::optional<KeptTeacher> kept_teacher_;
};

}  // namespace crumb::tasks
