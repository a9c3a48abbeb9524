// Adapters go into the matrices that they stand beside: what crumb merge does.
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

/// Merged codes learn what the network computes with its adapters beside them.
struct MergeTraining {
  std::string train;          ///< a text, .jsonl, lines of an encoder, synthetic, synthetic-chat
  std::string valid;          ///< a text to measure by; "": nothing is measured
  std::int64_t batch = 0;     ///< sequences, or lines, of a step; 0: 4, 32
  double rate = 1e-4;         ///< the highest
  double scale_rate = 5e-4;   ///< that of the scales of codes
  bool scales_alone = false;  ///< codes stay as they were merged
  std::uint64_t seed = 0;     ///< of the order of sequences
  LanguageTraining how = {};
};

struct MergeRequest {
  std::string input;  ///< a packed file, with adapters in it or not, a Hugging Face folder or a GGUF file
  std::vector<std::string> adapters;  ///< PEFT folders or GGUF files, beside those of a packed file
  /// A folder, for the matrices in floats; a packed file (.crumb), for codes; with `training` a folder for
  /// the run.
  std::string output;

  std::string weights;               ///< of codes: the spec of merged matrices; "": theirs
  std::optional<std::string> shard;  ///< of floats: a tensor file has at most so much, "2GB"; nothing: 5GB
  std::string dtype;                 ///< of floats: f32, f16, bf16; "": as they come
  std::optional<MergeTraining> training;  ///< codes are trained
};

/// What was done, by what was written.
struct MergeReport {
  // Floats.
  std::size_t matrices = 0;  ///< that adapters went into
  std::size_t tensors = 0, files = 0;

  // Codes.
  bool wrote_codes = false;  ///< a packed file, without training
  std::vector<graph::MergedLayer> layers;
  std::uint64_t bytes = 0;  ///< of the packed file

  /// Of training, what report.json holds; null in a process that another one writes for (torchrun).
  nlohmann::ordered_json training;
};

/// Throws Error, of kind kUsage where the request contradicts itself or the input; Interrupted. Then there is
/// no output, but for the state of a run, which goes on from there.
MergeReport merge(const MergeRequest& request, Observer& observer);

}  // namespace crumb::jobs
