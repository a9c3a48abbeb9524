// The head of an encoder that scores a text, or a pair of texts: what transformers calls
// ForSequenceClassification, and sentence-transformers a CrossEncoder.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/json/json_file.h"
#include "formats/checkpoint/sentence_modules.h"

namespace crumb {

/// The function of the logits that CrossEncoder.predict gives.
enum class ScoreFunction { kIdentity, kSigmoid, kTanh, kRelu };

struct ScoreHead {
  std::size_t labels = 2;
  ScoreFunction function = ScoreFunction::kIdentity;

  /// `config`: the transformer's config.json; `text`: the model's files. Nothing where the architecture has
  /// no such head, and where modules of sentence-transformers pool the states. The function is the one that
  /// config_sentence_transformers.json or config.json names ("activation_fn"), else sigmoid for one label and
  /// none for several. Throws Error, which names the file, for a function of PyTorch that is not known, and
  /// for a list of labels that is none.
  static std::optional<ScoreHead> read(const JsonFile& config, const ModelText& text);

  /// The architecture with such a head, "BertForSequenceClassification"; nothing where there is none.
  static std::optional<std::string> architecture_of(const JsonFile& config);
};

}  // namespace crumb
