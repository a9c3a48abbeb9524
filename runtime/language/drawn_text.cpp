#include "runtime/language/drawn_text.h"

#include <algorithm>
#include <mutex>
#include <random>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/threads/parallel.h"
#include "runtime/language/decoding.h"
#include "runtime/language/sampler.h"

namespace crumb::runtime {
namespace {

using text::TokenId;

bool ends(const LanguageModel& model, TokenId id) {
  return std::ranges::find(model.end_tokens(), id) != model.end_tokens().end();
}

TokenId ordinary_token(const LanguageModel& model, std::mt19937_64& random) {
  for (;;) {
    const auto id = static_cast<TokenId>(random() % model.vocabulary());
    const bool is_there =
        model.tokenizer().piece(id) != nullptr;  // tables may have more rows than there are tokens
    if (is_there && !ends(model, id) && !model.tokenizer().is_special(id)) return id;
  }
}

/// Puts `length` tokens behind those of `out`.
void draw_sequence(const LanguageModel& model, std::size_t length, std::uint64_t seed,
                   std::vector<std::int64_t>& out) {
  std::mt19937_64 random(seed);
  Decoding decoding(model, {.threads = 1});
  const std::size_t end = out.size() + length;
  while (out.size() < end) {
    check_interrupt();
    Sampler sampler({.temperature = 1, .seed = random()});
    std::vector<TokenId> begin;
    if (model.first_token()) begin.push_back(*model.first_token());
    begin.push_back(ordinary_token(model, random));
    decoding.truncate(0);
    std::span<const float> logits = decoding.feed(begin);
    out.push_back(begin.back());
    while (out.size() < end) {
      const TokenId id = sampler.choose(logits, decoding.ids());
      out.push_back(id);
      if (ends(model, id)) break;
      logits = decoding.feed({&id, 1});
    }
  }
}

}  // namespace

std::vector<std::int64_t> draw_text(const LanguageModel& model, const DrawnText& how,
                                    const std::function<void(std::size_t)>& done) {
  if (how.length + (model.first_token() ? 1 : 0) > model.positions())
    throw Error("a sequence of " + std::to_string(how.length) + " tokens is longer than the " +
                std::to_string(model.positions()) + " positions of the model");
  std::vector<std::vector<std::int64_t>> sequences(how.sequences);
  std::mutex mutex;
  std::size_t drawn = 0;
  parallel_for(how.sequences, 1, how.threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      std::seed_seq of_sequence{how.seed & 0xFFFFFFFFU, how.seed >> 32, std::uint64_t{i}};
      std::uint32_t words[2];
      of_sequence.generate(words, words + 2);
      draw_sequence(model, how.length, words[0] | std::uint64_t{words[1]} << 32, sequences[i]);
      const std::scoped_lock lock(mutex);
      if (done) done(++drawn);
    }
  });
  std::vector<std::int64_t> all;
  for (const auto& sequence : sequences) all.insert(all.end(), sequence.begin(), sequence.end());
  return all;
}

}  // namespace crumb::runtime
