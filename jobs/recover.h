// A low-rank adapter learns, beside frozen codes, to win back what quantizing took: what crumb recover does.
//
//   jobs::Observer silent;
//   jobs::recover(
//       {.input = "w2.crumb", .baseline = "SmolLM2", .data = "text.txt", .output = "recovered"}, silent);
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "jobs/language_training.h"
#include "jobs/observer.h"

namespace crumb::jobs {

struct RecoverRequest {
  std::string input;     ///< the quantized model, a packed file
  std::string baseline;  ///< the same model in floats; "" where nothing asks for it
  std::string data;      ///< a text, .jsonl, lines of an encoder, synthetic, synthetic-chat
  std::string valid;     ///< a text to measure by; "": nothing is measured
  std::string output;    ///< the folder for model.crumb, adapter/, log.jsonl and report.json

  // The adapter.
  /// Or svd, whitened (docs/recovery.md); kept: the one that the file has goes on, and none of the four below
  /// is given.
  std::string init = "zero";
  std::optional<std::size_t> rank;   ///< 16
  std::optional<double> alpha;       ///< the rank; the adapter is scaled by alpha / rank,
  bool rslora = false;               ///< or by alpha / sqrt(rank)
  std::vector<std::string> targets;  ///< patterns of matrices or layers; none: all with codes
  std::optional<std::string> name;   ///< "recovery"; of one that goes on: the only one
  std::string ranks = "even";        ///< of svd and whitened: even, error
  std::string type = "bf16";         ///< what it is kept as: f32, f16, bf16, int8

  // How it learns.
  std::string loss;        ///< kl, hidden, ce, mix, cosine; "": kl, of encoders mix
  std::int64_t batch = 0;  ///< sequences, or lines, of a step; 0: 4, 32
  double rate = 1e-3;      ///< the highest
  std::uint64_t seed = 0;  ///< of the order of sequences and of the adapter's first values
  LanguageTraining how = {};
};

struct RecoverReport {
  nlohmann::ordered_json
      training;  ///< what report.json holds; null in a process that another one writes for (torchrun)
};

/// Opens the engine's library. Throws Error, of kind kUsage where the request contradicts itself or the
/// input; Interrupted. Then the folder has no report, and an older one stays; a state that was kept there is
/// gone on from.
RecoverReport recover(const RecoverRequest& request, Observer& observer);

}  // namespace crumb::jobs
