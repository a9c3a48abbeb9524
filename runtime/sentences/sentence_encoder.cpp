#include "runtime/sentences/sentence_encoder.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/files/text.h"
#include "base/threads/parallel.h"
#include "graph/not_finite.h"
#include "runtime/exact/products.h"

namespace crumb::runtime {
namespace {

/// Tokens of each line; types are empty where all are 0.
using Rows = std::vector<text::PairTokens>;

/// Lines that run together, as indices, the longest first; shorter ones are padded.
using Batch = std::vector<std::size_t>;

/// Long lines come first, so that the thread with the last batch has little to do. Batches are small where
/// there are many threads for little text, and large where each product costs the decoding of its weights.
std::vector<Batch> make_batches(const Rows& rows, int threads) {
  constexpr std::size_t kLeastTokens = 256, kMostTokens = 2048, kBatchesPerThread = 4;
  std::size_t total = 0;
  for (const text::PairTokens& row : rows) total += row.ids.size();
  const auto workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
  const std::size_t room = std::clamp(total / (workers * kBatchesPerThread), kLeastTokens, kMostTokens);

  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t line) { return rows[line].ids.size(); };
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return length(a) > length(b); });
  std::vector<Batch> batches;
  for (const std::size_t line : order) {
    const std::size_t longest = batches.empty() ? 0 : length(batches.back()[0]);
    const std::size_t filled = batches.empty() ? 0 : batches.back().size() * longest;
    const bool is_short = filled >= kLeastTokens && length(line) < longest - longest / 8;
    if (batches.empty() || filled + longest > room || is_short) batches.emplace_back();
    batches.back().push_back(line);
  }
  return batches;
}

/// The inputs that a graph of these names has; the pooling leaves `unpooled` first tokens out.
std::vector<Array> inputs_of(const std::vector<std::string>& names, const Rows& rows, const Batch& batch,
                             std::size_t unpooled) {
  const std::size_t longest = rows[batch[0]].ids.size();
  const Ints shape{static_cast<std::int64_t>(batch.size()), static_cast<std::int64_t>(longest)};
  std::vector<Array> inputs;
  for (const std::string& name : names) {
    const std::span<std::int64_t> all =
        inputs.emplace_back(ElementType::kInt64, shape).writable<std::int64_t>();
    std::ranges::fill(all, 0);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const text::PairTokens& line = rows[batch[i]];
      const std::span<std::int64_t> row = all.subspan(i * longest, line.ids.size());
      if (name == "input_ids") std::ranges::copy(line.ids, row.begin());
      if (name == "token_type_ids") std::ranges::copy(line.types, row.begin());
      if (name == "attention_mask") std::ranges::fill(row, 1);
      if (name == kPooledInput) std::ranges::fill(row.subspan(std::min(unpooled, row.size())), 1);
    }
  }
  return inputs;
}

constexpr std::array<std::string_view, 4> kInputs = {"input_ids", "attention_mask", "token_type_ids",
                                                     kPooledInput};

/// The tokens of each line. Throws Error for a line without any.
template <typename Line, typename RowOf>
Rows rows_of(const std::vector<Line>& lines, int threads, const RowOf& row_of) {
  constexpr std::size_t kLinesPerPiece = 64;
  Rows rows(lines.size());
  parallel_for(lines.size(), kLinesPerPiece, threads, [&](std::size_t begin, std::size_t end) {
    check_interrupt();
    for (std::size_t i = begin; i < end; ++i) {
      rows[i] = row_of(lines[i]);
      if (rows[i].ids.empty())
        throw Error("line " + std::to_string(i + 1) +
                    " has no tokens, and the model's tokenizer puts none around it: no vector stands for it");
    }
  });
  return rows;
}

/// The mean of `length` states of out.size() numbers each.
void mean_of(std::span<const float> states, std::size_t length, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = exact::sum_of(length, [&](std::size_t k) { return states[k * out.size() + i]; }) /
             static_cast<float>(length);
}

}  // namespace

SentenceEncoder::SentenceEncoder(Model model, SentenceTokenizer tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  const std::vector<std::string>& outputs = model_.graph().outputs;
  auto found = std::ranges::find(outputs, "sentence_embedding");
  if (found == outputs.end()) found = std::ranges::find(outputs, "scores");
  of_tokens_ = found == outputs.end();
  if (of_tokens_) found = std::ranges::find(outputs, "last_hidden_state");
  const auto shape = found == outputs.end() ? std::nullopt : model_.graph().shape_of(*found);
  if (!shape || shape->empty() || !shape->back().known())
    throw Error(
        "its graph is no sentence encoder's: it has no output sentence_embedding, scores or "
        "last_hidden_state");
  for (const std::string& name : model_.graph().inputs)
    if (std::ranges::find(kInputs, name) == kInputs.end())
      throw Error("its graph is no sentence encoder's: nothing says what to give its input " +
                  quote_text(name));
  output_ = static_cast<std::size_t>(found - outputs.begin());
  width_ = static_cast<std::size_t>(shape->back().size);
}

SentenceEncoder SentenceEncoder::load(graph::Graph graph, const ModelText& text, const std::string& name,
                                      const PromptChoice& prompt) {
  SentenceTokenizer tokenizer = SentenceTokenizer::load(text, name, prompt);
  return {Model(std::move(graph)), std::move(tokenizer)};
}

std::vector<float> SentenceEncoder::embed(const std::vector<std::string>& lines, int threads,
                                          const Progress& progress, Promise promise) const {
  const auto row_of = [&](const std::string& line) {
    return text::PairTokens{.ids = tokenizer_.encode(line), .types = {}};
  };
  return embed_rows(rows_of(lines, threads, row_of), threads, progress, promise);
}

std::vector<float> SentenceEncoder::embed_pairs(const std::vector<TextPair>& lines, int threads,
                                                const Progress& progress, Promise promise) const {
  const auto row_of = [&](const TextPair& line) { return tokenizer_.encode(line); };
  return embed_rows(rows_of(lines, threads, row_of), threads, progress, promise);
}

std::vector<float> SentenceEncoder::embed_rows(const Rows& rows, int threads, const Progress& progress,
                                               Promise promise) const {
  const std::vector<Batch> batches = make_batches(rows, threads);
  std::vector<float> out(rows.size() * width_);
  ArenaPool arenas;
  std::mutex progress_mutex;
  std::size_t done = 0;
  graph::NotFiniteWatch* const watch = graph::NotFiniteWatch::current();
  parallel_for(batches.size(), 1, threads, [&](std::size_t begin, std::size_t) {
    check_interrupt();
    const graph::NotFiniteScope scope(watch);
    const Batch& batch = batches[begin];
    const ArenaPool::Lease lease(arenas);
    const std::vector<Array> made =
        model_.run(inputs_of(model_.graph().inputs, rows, batch, tokenizer_.unpooled()),
                   {.threads = 1, .promise = promise, .arena = lease.arena()});
    const std::span<const float> values = made[output_].values<float>();
    const std::size_t stride = values.size() / batch.size();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::span<float> line = std::span(out).subspan(batch[i] * width_, width_);
      if (of_tokens_) {
        mean_of(values.subspan(i * stride, stride), rows[batch[i]].ids.size(), line);
      } else {
        std::ranges::copy(values.subspan(i * stride, stride), line.begin());
      }
    }
    if (progress) {
      const std::lock_guard lock(progress_mutex);
      done += batch.size();
      progress(done, rows.size());
    }
  });
  return out;
}

}  // namespace crumb::runtime
