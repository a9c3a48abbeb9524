// A float decoder's predictions for a text, stored in a file, so that the decoder runs once and is not in
// memory while others learn from it.
//
// The file is safetensors, with a tensor F32 [length, 2, top] for each sequence, named by its index in nine
// digits: for each position the logarithms of the `top` largest probabilities, the largest first, and the
// tokens that have them. The metadata say which text it was, how it was cut, and the temperature. The rest of
// the probability counts as one more token.
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
  /// Opens the predictions for the sequences `wanted`, in ascending order. Where there is no file at
  /// request.supervision.teacher.file, `network` makes it, atomically, and `done` is called after each
  /// sequence. Throws Error on a damaged file. Throws usage Error on a file of another text, length,
  /// temperature or vocabulary, or without one of the sequences, and where there is no file and `network` is
  /// null.
  KeptTeacher(const LanguageRequest& request, const Sequences& sequences,
              const std::vector<std::int64_t>& wanted, const FloatDecoder* network,
              const std::function<void(std::int64_t, std::int64_t)>& done);

  /// Returns the divergence of predictions from the teacher's (qat/distillation.h), summed over `positions`
  /// of the concatenated sequences: logits [1, positions, vocabulary].
  at::Tensor divergence(const at::Tensor& logits, const std::vector<std::int64_t>& sequences,
                        const at::Tensor& positions) const;

 private:
  void open(const std::filesystem::path& path, const std::map<std::string, std::string>& facts,
            const std::vector<std::int64_t>& wanted);

  std::optional<MappedFile> file_;
  std::int64_t length_, top_ = 0;
  double temperature_;
  std::map<std::int64_t, std::uint64_t> offsets_;  ///< of each sequence's numbers
};

}  // namespace crumb::tasks
