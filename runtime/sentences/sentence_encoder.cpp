#include "runtime/sentences/sentence_encoder.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/files/interrupt.h"
#include "base/threads/parallel.h"
#include "formats/checkpoint/bert_config.h"
#include "runtime/exact/products.h"

namespace crumb::runtime {
namespace {

using Ids = std::vector<text::TokenId>;

/// The default prompt, or "".
std::string prompt_of(const ModelText& text) {
  const auto found = text("config_sentence_transformers.json");
  if (!found) return "";
  const JsonFile config("config_sentence_transformers.json", *found);
  const auto name = config.string("default_prompt_name");
  if (!name) return "";
  const auto prompts = config.root().find("prompts");
  if (prompts != config.root().end() && prompts->is_object()) {
    const auto prompt = prompts->find(*name);
    if (prompt != prompts->end() && prompt->is_string()) return prompt->get<std::string>();
  }
  throw config.error("default_prompt_name is \"" + *name + "\", which is not among its prompts");
}

/// Lines that run together, as indices, the longest first; what is shorter is filled up.
using Batch = std::vector<std::size_t>;

/// Long lines first, so that a thread which takes the last batch takes little; small batches where there are many threads
/// for little text, large ones where each product costs the decoding of its weights.
std::vector<Batch> make_batches(const std::vector<Ids>& ids, int threads) {
  constexpr std::size_t kLeastTokens = 256, kMostTokens = 2048, kBatchesPerThread = 4;
  std::size_t total = 0;
  for (const Ids& line : ids) total += line.size();
  const auto workers = static_cast<std::size_t>(threads > 0 ? threads : default_threads());
  const std::size_t room = std::clamp(total / (workers * kBatchesPerThread), kLeastTokens, kMostTokens);

  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return ids[a].size() > ids[b].size(); });
  std::vector<Batch> batches;
  for (const std::size_t line : order) {
    const std::size_t longest = batches.empty() ? 0 : ids[batches.back()[0]].size();
    const std::size_t filled = batches.empty() ? 0 : batches.back().size() * longest;
    const bool is_short = filled >= kLeastTokens && ids[line].size() < longest - longest / 8;
    if (batches.empty() || filled + longest > room || is_short) batches.emplace_back();
    batches.back().push_back(line);
  }
  return batches;
}

/// input_ids, attention_mask and token_type_ids.
std::vector<Array> inputs_of(const std::vector<Ids>& ids, const Batch& batch) {
  const std::size_t longest = ids[batch[0]].size();
  const Ints shape{static_cast<std::int64_t>(batch.size()), static_cast<std::int64_t>(longest)};
  std::vector<Array> inputs(3);
  for (Array& input : inputs) {
    input = Array(ElementType::kInt64, shape);
    std::ranges::fill(input.writable<std::int64_t>(), 0);
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Ids& line = ids[batch[i]];
    const auto row = [&](Array& input) {
      return input.writable<std::int64_t>().subspan(i * longest, longest);
    };
    std::ranges::copy(line, row(inputs[0]).begin());
    std::ranges::fill(row(inputs[1]).first(line.size()), 1);
  }
  return inputs;
}

/// The mean of `length` states of out.size() numbers each.
void mean_of(std::span<const float> states, std::size_t length, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = exact::sum_of(length, [&](std::size_t k) { return states[k * out.size() + i]; }) /
             static_cast<float>(length);
}

}  // namespace

SentenceEncoder::SentenceEncoder(Model model, text::Tokenizer tokenizer, std::string prompt)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), prompt_(std::move(prompt)) {
  const std::vector<std::string>& outputs = model_.graph().outputs;
  auto found = std::ranges::find(outputs, "sentence_embedding");
  of_tokens_ = found == outputs.end();
  if (of_tokens_) found = std::ranges::find(outputs, "last_hidden_state");
  const auto shape = found == outputs.end() ? std::nullopt : model_.graph().shape_of(*found);
  if (!shape || shape->empty() || !shape->back().known())
    throw Error(
        "its graph is no sentence encoder's: it has no output sentence_embedding or last_hidden_state");
  output_ = static_cast<std::size_t>(found - outputs.begin());
  width_ = static_cast<std::size_t>(shape->back().size);
}

SentenceEncoder SentenceEncoder::load(graph::Graph graph, const ModelText& text, const std::string& name) {
  const std::string path = SentenceModules::transformer_path(text);
  const auto config_text = text(path + "config.json");
  if (!config_text) throw Error(name + " has no " + path + "config.json");
  const auto config = BertConfig::parse(JsonFile(path + "config.json", *config_text));
  auto tokenizer =
      text::Tokenizer::load([&](std::string_view file) { return text(std::string(file)); }, path);
  tokenizer.limit_length(config.max_positions);
  if (static_cast<std::size_t>(tokenizer.largest_id()) >= config.vocab_size) {
    throw Error(name + ": the tokenizer's ids go up to " + std::to_string(tokenizer.largest_id()) +
                ", but config.json says that there are " + std::to_string(config.vocab_size) + " embeddings");
  }
  return {Model(std::move(graph)), std::move(tokenizer), prompt_of(text)};
}

std::vector<float> SentenceEncoder::embed(const std::vector<std::string>& lines, int threads,
                                          const Progress& progress, Promise promise) const {
  constexpr std::size_t kLinesPerPiece = 64;
  std::vector<Ids> ids(lines.size());
  parallel_for(lines.size(), kLinesPerPiece, threads, [&](std::size_t begin, std::size_t end) {
    check_interrupt();
    for (std::size_t i = begin; i < end; ++i)
      ids[i] = tokenizer_.encode(prompt_.empty() ? lines[i] : prompt_ + lines[i]);
  });

  const std::vector<Batch> batches = make_batches(ids, threads);
  std::vector<float> out(lines.size() * width_);
  ArenaPool arenas;
  std::mutex progress_mutex;
  std::size_t done = 0;
  parallel_for(batches.size(), 1, threads, [&](std::size_t begin, std::size_t) {
    check_interrupt();
    const Batch& batch = batches[begin];
    const ArenaPool::Lease lease(arenas);
    const std::vector<Array> made =
        model_.run(inputs_of(ids, batch), {.threads = 1, .promise = promise, .arena = lease.arena()});
    const std::span<const float> values = made[output_].values<float>();
    const std::size_t stride = values.size() / batch.size();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::span<float> line = std::span(out).subspan(batch[i] * width_, width_);
      if (of_tokens_) {
        mean_of(values.subspan(i * stride, stride), ids[batch[i]].size(), line);
      } else {
        std::ranges::copy(values.subspan(i * stride, stride), line.begin());
      }
    }
    if (progress) {
      const std::lock_guard lock(progress_mutex);
      done += batch.size();
      progress(done, lines.size());
    }
  });
  return out;
}

}  // namespace crumb::runtime
