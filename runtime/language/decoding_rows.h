// Several texts of one language model at once: each run takes one token of every row, so that weights are
// read once for all rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/language/language_model.h"
#include "runtime/memory/arena.h"

namespace crumb::runtime {

/// Rows have the same length. Each may begin a new text at any position: earlier positions are masked out,
/// and positions count from there. A row's logits do not depend on the other rows. For one thread at a time;
/// several may share one model.
class DecodingRows {
 public:
  /// The model must outlive it. Precondition: rows > 0.
  DecodingRows(const LanguageModel& model, std::size_t rows, int threads);

  std::size_t rows() const { return rows_; }

  /// Says that the row's next token is the first of a text.
  void begin(std::size_t row);

  /// Appends one token to each row and returns the logits, [rows, vocabulary], which are valid until the next
  /// call. Throws Error where a row's text would be longer than the model has positions, and as Model::run
  /// does. Precondition: as many ids as rows, below the vocabulary.
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
