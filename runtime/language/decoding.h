// One sequence of tokens through a language model, with the keys and values of its positions kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/language/language_model.h"
#include "runtime/memory/arena.h"

namespace crumb::runtime {

struct DecodingOptions {
  int threads = 0;  ///< 0: those that the machine has
  Promise promise = Promise::kExact;
  std::size_t context = 0;  ///< most positions; 0: as many as the model has positions
};

/// For one thread at a time; several may share one model. Tokens have logits with the same bits whether they
/// come at once or in steps.
class Decoding {
 public:
  /// The model must outlive it.
  Decoding(const LanguageModel& model, const DecodingOptions& options);

  /// Appends tokens and returns the logits of the last `kept` of them, [kept, vocabulary], which are valid
  /// until the next call. Long inputs are run in pieces, between which the user may interrupt. Throws Error
  /// where the context would be too long, and as Model::run does; the sequence is then as it was.
  /// Preconditions: 1 <= kept <= ids.size(), ids below the vocabulary.
  std::span<const float> feed(std::span<const text::TokenId> ids, std::size_t kept = 1) {
    return replace(ids_.size(), ids, kept);
  }
  /// feed() behind the first `length` tokens, in place of those behind them. Where it fails, the sequence is
  /// as it was. While it runs, it takes memory for a copy of the keys and values that it replaces; where
  /// memory is lacking, they are computed again when they are next needed. Precondition: length <=
  /// ids().size().
  std::span<const float> replace(std::size_t length, std::span<const text::TokenId> ids,
                                 std::size_t kept = 1);

  const std::vector<text::TokenId>& ids() const { return ids_; }  ///< the sequence so far
  std::size_t context() const { return context_; }
  std::uint64_t bytes() const { return session_.bytes(); }  ///< memory of keys and values
  void truncate(std::size_t length);  ///< keeps the first; precondition: length <= ids().size()

  /// Keys and values with their ids, for restore() of another decoding of the same model.
  std::vector<std::byte> save() const;
  /// Throws Error where the bytes are damaged, or come from a model of other sizes; nothing is changed then.
  /// Weights are not compared.
  void restore(std::span<const std::byte> bytes);

 private:
  std::size_t positions() const {
    return static_cast<std::size_t>(session_.length());
  }  ///< that keys and values are there of
  /// The number of positions that can be kept when the first `length` tokens stay and `after` tokens follow.
  std::size_t positions_kept(std::size_t length, std::size_t after) const;
  /// Whether the positions of a sequence of this length are rotated by other frequencies than those of short
  /// ones.
  bool turns_otherwise(std::size_t length) const {
    return model_->switch_at() > 0 && length > model_->switch_at();
  }
  /// Undoes a run that failed: the positions behind the first `stays` come from the tail, if there is one.
  void go_back(std::size_t stays, std::optional<Session::Tail> tail);
  /// Runs the tokens that have no keys and values yet, `piece` at a time. Returns the logits of the last
  /// `kept`, which lie in made_ where one run made all of them, else in logits_.
  std::span<const float> run_behind(std::size_t piece, std::size_t kept);
  /// The logits of the last `kept`, in made_.
  std::span<const float> run(std::span<const text::TokenId> ids, std::size_t kept);

  const LanguageModel* model_;
  DecodingOptions options_;
  std::size_t context_;
  Session session_;
  Arena arena_;
  std::vector<text::TokenId> ids_;  ///< those of the positions, and those that are to be run again
  Array made_;                      ///< logits of the last run
  std::vector<float> logits_;
};

}  // namespace crumb::runtime
