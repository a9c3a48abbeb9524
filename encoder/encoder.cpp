#include "encoder/encoder.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/threads/parallel.h"

namespace crumb::encoder {
namespace {

/// The default prompt, or "".
std::string read_prompt(const models::WeightSource& source) {
  const auto text = source.file("config_sentence_transformers.json");
  if (!text) return "";
  const JsonFile config("config_sentence_transformers.json", *text);
  const auto name = config.string("default_prompt_name");
  if (!name) return "";
  const auto prompts = config.root().find("prompts");
  if (prompts != config.root().end() && prompts->is_object()) {
    const auto prompt = prompts->find(*name);
    if (prompt != prompts->end() && prompt->is_string()) return prompt->get<std::string>();
  }
  throw config.error("default_prompt_name is \"" + *name + "\", which is not among its prompts");
}

/// Sentences that run together, as indices into the lines.
using Batch = std::vector<size_t>;

/// Long sentences first, so that a thread which takes the last batch takes little; small batches where there
/// are many threads for little text, large ones where each product costs the decoding of its weights.
std::vector<Batch> make_batches(const std::vector<std::vector<text::TokenId>>& ids, int threads) {
  constexpr size_t kLeastTokens = 256;
  constexpr size_t kMostTokens = 2048;
  constexpr size_t kBatchesPerThread = 4;
  size_t total = 0;
  for (const auto& sentence : ids) total += sentence.size();
  const size_t workers = static_cast<size_t>(threads > 0 ? threads : default_threads());
  const size_t room = std::clamp(total / (workers * kBatchesPerThread), kLeastTokens, kMostTokens);

  std::vector<size_t> order(ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return ids[a].size() > ids[b].size(); });
  std::vector<Batch> batches;
  size_t tokens = 0;
  for (const size_t line : order) {
    if (batches.empty() || tokens + ids[line].size() > room) {
      batches.emplace_back();
      tokens = 0;
    }
    batches.back().push_back(line);
    tokens += ids[line].size();
  }
  return batches;
}

}  // namespace

Encoder Encoder::load(const models::WeightSource& source) {
  const std::string path = SentenceHead::transformer_path(source);
  const auto config_text = source.file(path + "config.json");
  if (!config_text) {
    throw Error(source.describe() + " has no " + path +
                "config.json, so nothing says what network its tensors are");
  }
  const auto config = BertConfig::parse(JsonFile(path + "config.json", *config_text));
  auto tokenizer = text::Tokenizer::load([&](std::string_view name) { return source.file(name); }, path);
  tokenizer.limit_length(config.max_positions);
  if (static_cast<size_t>(tokenizer.largest_id()) >= config.vocab_size) {
    throw Error(source.describe() + ": the tokenizer's ids go up to " +
                std::to_string(tokenizer.largest_id()) + ", but config.json says that there are " +
                std::to_string(config.vocab_size) + " embeddings");
  }
  Bert bert(source, config);
  auto head = SentenceHead::load(source, config.hidden_size);
  return {std::move(tokenizer), std::move(bert), std::move(head), read_prompt(source)};
}

std::vector<float> Encoder::embed(const std::vector<std::string>& lines, int threads,
                                  const Progress& progress) const {
  constexpr size_t kLinesPerPiece = 64;
  std::vector<std::vector<text::TokenId>> ids(lines.size());
  parallel_for(lines.size(), kLinesPerPiece, threads, [&](size_t begin, size_t end) {
    check_interrupt();
    for (size_t i = begin; i < end; ++i)
      ids[i] = tokenizer_.encode(prompt_.empty() ? lines[i] : prompt_ + lines[i]);
  });

  const auto batches = make_batches(ids, threads);
  std::vector<float> out(lines.size() * width());
  std::mutex progress_mutex;
  size_t done = 0;
  parallel_for(batches.size(), 1, threads, [&](size_t begin, size_t) {
    const Batch& batch = batches[begin];
    std::vector<std::span<const text::TokenId>> sentences;
    for (const size_t line : batch) sentences.emplace_back(ids[line]);
    const std::vector<float> states = bert_.forward(sentences);
    size_t first = 0;
    for (const size_t line : batch) {
      const size_t count = ids[line].size() * bert_.config().hidden_size;
      head_.apply(std::span(states).subspan(first, count), std::span(out).subspan(line * width(), width()));
      first += count;
    }
    if (progress) {
      const std::lock_guard lock(progress_mutex);
      done += batch.size();
      progress(done, lines.size());
    }
  });
  return out;
}

}  // namespace crumb::encoder
