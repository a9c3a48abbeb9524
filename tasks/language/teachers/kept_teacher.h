// What a float decoder predicts of a text, kept in a file, so that it runs once and is not in memory while others learn from it.
//
// The file is safetensors: a tensor F32 [length, 2, top] for each sequence, called by its number in nine digits; of each position the
// logarithms of the `top` largest probabilities, the largest first, and the tokens that have them. The metadata say of which
// text and how it was cut, and at which temperature. What is left of the probability counts as one token more.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files/mapped_file.h"
#include "tasks/language/language_trainer.h"
#include "tasks/language/teachers/float_network.h"
#include "tasks/language/text/sequences.h"

namespace crumb::tasks {

class KeptTeacher {
 public:
  /// Of the sequences `wanted`, in ascending order. Where no file lies at request.teacher.file, `network` makes it, whole or not
  /// at all; `done` is called after each sequence. Throws Error on a damaged file, usage Error on one of another text, length,
  /// temperature or vocabulary, or without one of the sequences, and where there is none and `network` is null.
  KeptTeacher(const LanguageRequest& request, const Sequences& sequences,
              const std::vector<std::int64_t>& wanted, const FloatDecoder* network,
              const std::function<void(std::int64_t, std::int64_t)>& done);

  /// Divergence of predictions from it (qat/distillation.h), summed over `positions` of the sequences, one after the other:
  /// logits [1, positions, vocabulary].
  at::Tensor divergence(const at::Tensor& logits, const std::vector<std::int64_t>& sequences,
                        const at::Tensor& positions) const;

 private:
  void open(const std::filesystem::path& path, const std::map<std::string, std::string>& facts,
            const std::vector<std::int64_t>& wanted);

  std::optional<MappedFile> file_;
  std::int64_t length_, top_ = 0;
  double temperature_;
  std::map<std::int64_t, std::uint64_t> offsets_;  ///< of a sequence's numbers
};

}  // namespace crumb::tasks
