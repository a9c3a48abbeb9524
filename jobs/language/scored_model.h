// A language model whose predictions of a text are measured.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/perplexity.h"
#include "graph/not_finite.h"
#include "jobs/language/language_model.h"
#include "runtime/language/decoding.h"

namespace crumb::jobs {

/// The model's logits, window by window. The model must outlive it.
class DecodingLogits final : public eval::LogitsSource {
 public:
  /// watch: is told of values that reach quantizers and are not finite; may be null.
  DecodingLogits(const runtime::LanguageModel& model, const runtime::DecodingOptions& options,
                 graph::NotFiniteWatch* watch = nullptr)
      : model_(model), decoding_(model, options), watch_(watch) {}

  void begin(std::span<const std::int32_t> window, std::size_t first) override;
  std::span<const float> next(std::size_t count) override;

 private:
  const runtime::LanguageModel& model_;
  runtime::Decoding decoding_;
  graph::NotFiniteWatch* watch_;
  std::span<const std::int32_t> rest_;
  std::span<const float> ahead_;
};

/// A model and one of its sequences.
struct ScoredModel {
  ScoredModel(const std::string& path, const ModelOptions& model_options, const runtime::DecodingOptions& how,
              Observer& observer, bool strict = false)
      : name(path),
        model(open_language_model(path, model_options, observer)),
        watch(strict),
        logits(model, how, &watch) {}

  std::optional<graph::NotFinite> not_finite() const { return watch.first(&model.model().graph()); }

  std::string name;
  runtime::LanguageModel model;
  graph::NotFiniteWatch watch;
  DecodingLogits logits;
};

/// Returns the text's tokens, without the one that every text begins with; at most so many (0: all).
std::vector<text::TokenId> scored_ids(const runtime::LanguageModel& model, const std::string& text,
                                      std::size_t most);

/// Throws Error where the two models' logits are not of the same tokens, and so cannot be compared. `ids`:
/// the text's ids in `model`.
void check_alike(const runtime::LanguageModel& model, const runtime::LanguageModel& other,
                 const std::string& name, const std::string& text, const std::vector<text::TokenId>& ids,
                 std::size_t most);

}  // namespace crumb::jobs
