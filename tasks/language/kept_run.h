// What a run of language training stores so that another run can go on from it: a LibTorch archive of "about"
// (JSON: the request, the position), the network and the optimizer.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/input-archive.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "qat/optimize/weight_average.h"
#include "tasks/language/language_trainer.h"

namespace crumb::tasks {

/// The position of a run: before step `step`.
struct LanguagePosition {
  std::int64_t step = 0;
  std::vector<LayerLine> layers;
  std::vector<LanguageLine> log;
  double first_measure = LanguageOutcome::kNotMeasured;
  double middle_measure = LanguageOutcome::kNotMeasured;
};

/// Stores a run (average: null where there is none), atomically, and replaces an existing file. request: what
/// decides the run's result (request_fields.h).
void keep_language_run(const std::filesystem::path& path, const nlohmann::ordered_json& request,
                       const LanguagePosition& position, torch::nn::Module& network,
                       torch::optim::Optimizer& optimizer, const qat::WeightAverage* average);

class KeptLanguageRun {
 public:
  /// Returns nothing where there is no file or the path is empty. Throws Error where it is damaged, and usage
  /// Error where it is another request's, which names the field and both values.
  static std::optional<KeptLanguageRun> open(const std::filesystem::path& path,
                                             const nlohmann::ordered_json& request,
                                             const std::string& device);

  const LanguagePosition& position() const { return position_; }
  void load(torch::nn::Module& network);
  void load(torch::optim::Optimizer& optimizer);
  void load(qat::WeightAverage& average);

 private:
  torch::serialize::InputArchive archive_;
  LanguagePosition position_;
};

}  // namespace crumb::tasks
