// Merges adapters into the matrices that they belong to: what crumb merge does.
//
//   jobs::Observer silent;
//   jobs::merge({.input = "SmolLM2", .adapters = {"my_lora"}, .output = "merged"}, silent);
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "graph/adapters.h"
#include "jobs/language_training.h"
#include "jobs/observer.h"

namespace crumb::jobs {

/// Trains merged codes to give what the network with separate adapters computes.
struct MergeTraining {
  std::string train;          ///< a text, .jsonl, lines of an encoder, synthetic, synthetic-chat
  std::string valid;          ///< a text to measure by; "": nothing is measured
  std::int64_t batch = 0;     ///< sequences, or lines, of a step; 0: 4, for encoders 32
  double rate = 1e-4;         ///< the highest learning rate
  double scale_rate = 5e-4;   ///< the learning rate of the codes' scales
  bool scales_alone = false;  ///< keeps the codes as they were merged
  std::uint64_t seed = 0;     ///< of the order of sequences
  LanguageTraining how = {};
};

struct MergeRequest {
  std::string input;  ///< a packed file, with adapters in it or not, a Hugging Face folder or a GGUF file
  std::vector<std::string> adapters;  ///< PEFT folders or GGUF files, in addition to those of a packed file
  /// For matrices in floats, a folder; for codes, a packed file (.crumb); with `training`, the run's folder.
  std::string output;

  std::string weights;               ///< for codes: the spec of merged matrices; "": their own
  std::optional<std::string> shard;  ///< for floats: the most bytes of a tensor file, "2GB"; nothing: 5GB
  std::string dtype;                 ///< for floats: f32, f16, bf16; "": unchanged
  std::optional<MergeTraining> training;  ///< trains the codes
};

/// What was done; which fields are set depends on what was written.
struct MergeReport {
  // For floats.
  std::size_t matrices = 0;  ///< that adapters were merged into
  std::size_t tensors = 0, files = 0;

  // For codes.
  bool wrote_codes = false;  ///< a packed file, without training
  std::vector<graph::MergedLayer> layers;
  std::uint64_t bytes = 0;  ///< of the packed file

  /// For training: the contents of report.json; null where another process writes it (torchrun).
  nlohmann::ordered_json training;
};

/// Throws Error, of kind kUsage where the request contradicts itself or the input; throws Interrupted. Then
/// there is no output except the saved state of a training run, which the next run resumes.
MergeReport merge(const MergeRequest& request, Observer& observer);

}  // namespace crumb::jobs
