// Trains a low-rank adapter on frozen codes to win back what quantizing lost: what crumb recover does.
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
#include "jobs/report_file.h"

namespace crumb::jobs {

struct RecoverRequest {
  std::string input;     ///< the quantized model, a packed file
  std::string baseline;  ///< the same model in floats; "" where no option needs it
  std::string data;      ///< a text, .jsonl, lines of an encoder, synthetic, synthetic-chat
  std::string valid;     ///< the text to measure by; "": nothing is measured
  std::string output;    ///< the folder for model.crumb, adapter/, log.jsonl and report.json

  // The adapter. Also svd and whitened (docs/recovery.md), and kept, which trains the file's adapter further;
  // kept allows none of the next four fields.
  std::string init = "zero";
  std::optional<std::size_t> rank;   ///< 16
  std::optional<double> alpha;       ///< default: the rank; the adapter is scaled by alpha / rank,
  bool rslora = false;               ///< or by alpha / sqrt(rank)
  std::vector<std::string> targets;  ///< patterns of matrices or layers; none: all matrices with codes
  std::optional<std::string> name;   ///< default: "recovery"; with kept: the file's only one
  std::string ranks = "even";        ///< for svd and whitened: even, error
  std::string type = "bf16";         ///< the type that it is stored in: f32, f16, bf16, int8

  // How it learns.
  std::string loss;        ///< kl, hidden, ce, mix, cosine; "": kl, for encoders mix
  std::int64_t batch = 0;  ///< sequences, or lines, of a step; 0: 4, for encoders 32
  double rate = 1e-3;      ///< the highest learning rate
  std::uint64_t seed = 0;  ///< of the order of sequences and of the adapter's first values
  LanguageTraining how = {};
  ReportFile report = {};
};

struct RecoverReport {
  nlohmann::ordered_json
      training;  ///< the contents of report.json; null where another process writes it (torchrun)
};

/// Opens the engine's library. Throws Error, of kind kUsage where the request contradicts itself or the
/// input; throws Interrupted. Then the folder gets no report, and an older one stays; a saved state in the
/// folder is resumed.
RecoverReport recover(const RecoverRequest& request, Observer& observer);

}  // namespace crumb::jobs
