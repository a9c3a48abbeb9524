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

/// One thread at a time. Many may share one model. However tokens come, at once or in steps, their logits
/// have the same bits.
class Decoding {
 public:
  /// The model must outlive it.
  Decoding(const LanguageModel& model, const DecodingOptions& options);

  /// Puts tokens behind those that are there, and gives the logits of the last `kept` of them, [kept,
  /// vocabulary], which live until the next call. Long inputs are run in pieces, between which a person may
  /// interrupt. Throws Error, having kept what was there, where the context would be too long and as
  /// Model::run does. Preconditions: 1 <= kept <= ids.size(), ids below the vocabulary.
  std::span<const float> feed(std::span<const text::TokenId> ids, std::size_t kept = 1) {
    return replace(ids_.size(), ids, kept);
  }
  /// The same behind the first `length` tokens: those behind them go, and are there again, as they were,
  /// where it fails. Takes memory for a copy of their keys and values until it is done; where there is none,
  /// they are computed once more when they are next needed. Precondition: length <= ids().size().
  std::span<const float> replace(std::size_t length, std::span<const text::TokenId> ids,
                                 std::size_t kept = 1);

  const std::vector<text::TokenId>& ids() const { return ids_; }  ///< that are there
  std::size_t context() const { return context_; }
  std::uint64_t bytes() const { return session_.bytes(); }  ///< of keys and values
  void truncate(std::size_t length);  ///< keeps the first; precondition: length <= ids().size()

  /// Keys and values with their ids, for restore() of another of the same model.
  std::vector<std::byte> save() const;
  /// Throws Error where the bytes are damaged or of a model of other sizes; nothing is changed then. Weights
  /// are not compared.
  void restore(std::span<const std::byte> bytes);

 private:
  std::size_t positions() const {
    return static_cast<std::size_t>(session_.length());
  }  ///< that keys and values are there of
  /// Positions that may stay where the first `length` tokens do, and so many follow in all.
  std::size_t positions_kept(std::size_t length, std::size_t after) const;
  /// Whether all positions of a sequence so long are rotated by other frequencies than those of short ones.
  bool turns_otherwise(std::size_t length) const {
    return model_->switch_at() > 0 && length > model_->switch_at();
  }
  /// After a run that failed: positions behind the first that stayed are those of the tail, if there is one.
  void go_back(std::size_t stays, std::optional<Session::Tail> tail);
  /// Runs the tokens that have no keys and values yet, so many at a time; logits of the last `kept` come into
  /// logits_.
  void run_behind(std::size_t piece, std::size_t kept);
  void run(std::span<const text::TokenId> ids, std::size_t kept);

  const LanguageModel* model_;
  DecodingOptions options_;
  std::size_t context_;
  Session session_;
  Arena arena_;
  std::vector<text::TokenId> ids_;  ///< of the positions, and of those that are to be run once more
  std::vector<float> logits_;
};

}  // namespace crumb::runtime
