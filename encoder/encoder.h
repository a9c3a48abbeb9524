// Text to vectors: a BERT-family sentence encoder as its checkpoint's files describe it, over weights of any
// kind.
//
// Equal to sentence-transformers on the same checkpoint but for rounding.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "encoder/bert.h"
#include "encoder/sentence_head.h"
#include "models/weight_source.h"
#include "runtime/linear.h"
#include "text/tokenizer.h"

namespace crumb::encoder {

class Encoder {
 public:
  /// Called after each batch with the lines that are done and all lines, never by two threads at once. What
  /// it throws ends the work.
  using Progress = std::function<void(size_t done, size_t total)>;

  /// Reads config.json, modules.json and the tokenizer's files, and all tensors that they ask for. Throws
  /// crumb::Error on another architecture, a missing file or tensor, a wrong shape, a tokenizer with more ids
  /// than embeddings. Texts are cut at the tokenizer's limit, and at max_position_embeddings at the latest. A
  /// default prompt in config_sentence_transformers.json is put before every text.
  static Encoder load(const models::WeightSource& source);

  /// Floats per line.
  size_t width() const { return head_.width(); }

  /// [lines.size(), width()], in the order of the lines, on up to `threads` threads (0: as many as the
  /// machine has). A line's vector depends on that line alone, bit for bit: not on the others, not on the
  /// threads. Takes, per thread, memory for about 2048 tokens' states beside the result.
  std::vector<float> embed(const std::vector<std::string>& lines, int threads = 0,
                           const Progress& progress = {}) const;

  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  const Bert& bert() const { return bert_; }

 private:
  Encoder(text::Tokenizer tokenizer, Bert bert, SentenceHead head, std::string prompt)
      : tokenizer_(std::move(tokenizer)),
        bert_(std::move(bert)),
        head_(std::move(head)),
        prompt_(std::move(prompt)) {}

  text::Tokenizer tokenizer_;
  Bert bert_;
  SentenceHead head_;
  std::string prompt_;
};

}  // namespace crumb::encoder
