// How well language models predict a text, and how far each is from a baseline: what crumb perplexity does.
//
//   jobs::Observer silent;
//   const auto report =
//       jobs::score({.models = {"w4.crumb"}, .text = "test.txt", .baseline = "SmolLM2"}, silent);
//   report.models[0].made.against->kl.value  // nats a token
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "eval/perplexity.h"
#include "graph/not_finite.h"
#include "jobs/model_options.h"
#include "jobs/observer.h"

namespace crumb::jobs {

struct ScoreRequest {
  std::vector<std::string> models;  ///< Hugging Face folders, GGUF files, packed files; one at least
  std::string text;                 ///< a file in UTF-8
  std::string baseline;             ///< another model of the same tokens, the float one; "": none
  ModelOptions model_options = {};  ///< of the models, not of the baseline

  // The tokens that count (eval/perplexity.h).
  std::size_t context = 1024;  ///< length of a window in tokens
  std::size_t stride = 0;      ///< tokens from the start of one window to the next; 0: context
  std::size_t tokens = 0;      ///< the first tokens of the text; 0: all
  eval::Score score = eval::Score::kAll;

  // How it runs.
  int threads = 0;    ///< 0: as many as the machine has; the number never changes the result
  bool fast = false;  ///< runtime::Promise::kFast, for the models
  /// Where a person asks to stop after the first tokens, the report is of those; else Interrupted is thrown.
  bool keeps_partial = false;
  bool strict = false;  ///< throws Error, instead of a note, where a quantizer gets a value that is not
                        ///< finite
};

struct ModelScore {
  std::string model;
  eval::Perplexity made;
  std::optional<graph::NotFinite> not_finite;  ///< what quantizers got; the observer has heard of it
};

struct ScoreReport {
  std::vector<ModelScore> models;  ///< in the request's order
  bool interrupted = false;        ///< only with keeps_partial
};

/// Runs each window through all models in turn, so that the baseline runs once. Throws Error, which names the
/// model, where one cannot be opened or tokenizes otherwise than the first; of kind kUsage where the text is
/// shorter than a window or the request makes no sense. Throws Interrupted.
ScoreReport score(const ScoreRequest& request, Observer& observer);

}  // namespace crumb::jobs
