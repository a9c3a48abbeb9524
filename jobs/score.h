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

  // What is counted (eval/perplexity.h).
  std::size_t context = 1024;  ///< tokens of a window
  std::size_t stride = 0;      ///< tokens between the beginnings of windows; 0: context
  std::size_t tokens = 0;      ///< of the text, from its beginning; 0: all
  eval::Score score = eval::Score::kAll;

  // Running.
  int threads = 0;      ///< 0: those the machine has; the number never changes the result
  bool fast = false;    ///< runtime::Promise::kFast, of the models
  bool strict = false;  ///< what is not finite and comes to a quantizer is an Error, not a note
};

struct ModelScore {
  std::string model;
  eval::Perplexity made;
  std::optional<graph::NotFinite> not_finite;  ///< what came to a quantizer; the observer has heard of it
};

struct ScoreReport {
  std::vector<ModelScore> models;  ///< in the request's order
};

/// Windows run through all models side by side, so that the baseline runs once. Throws Error, which names the
/// model: one that cannot be opened, or whose tokens are not the first one's; of kind kUsage where the text
/// is shorter than a window or the request makes no sense; Interrupted.
ScoreReport score(const ScoreRequest& request, Observer& observer);

}  // namespace crumb::jobs
