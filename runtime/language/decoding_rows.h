// Texts of one language model side by side: each run takes one token of every row, so that weights are read
// once for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/language/language_model.h"
#include "runtime/memory/arena.h"

namespace crumb::runtime {

/// Rows are of one length, and each may begin a new text at any position: positions before it are masked out,
/// and positions count from there. Who stands in the other rows never changes a row's logits. One thread at a
/// time; many may share one model.
class DecodingRows {
 public:
  /// The model must outlive it. Precondition: rows > 0.
  DecodingRows(const LanguageModel& model, std::size_t rows, int threads);

  std::size_t rows() const { return rows_; }

  /// The row's next token is the first of a text.
  void begin(std::size_t row);

  /// Puts one token behind each row's and gives the logits, [rows, vocabulary], which live until the next
  /// call. Throws Error where a row's text is longer than the model has positions, and as Model::run does.
  /// Precondition: as many ids as rows, below the vocabulary.
  std::span<const float> feed(std::span<const text::TokenId> ids);

 private:
  std::size_t positions() const { return static_cast<std::size_t>(session_.length()); }

  const LanguageModel* model_;
  std::size_t rows_;
  int threads_;
  Session session_;
  Arena arena_;
  std::vector<std::size_t> begins_;  ///< the position at which each row's text begins
  std::vector<Array> made_;
};

}  // namespace crumb::runtime
