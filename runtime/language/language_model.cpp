#include "runtime/language/language_model.h"

#include <algorithm>
#include <utility>

#include "base/files/text.h"
#include "base/within.h"
#include "formats/checkpoint/decoder_config.h"
#include "runtime/language/logit_positions.h"

namespace crumb::runtime {
namespace {

using text::TokenId;

std::optional<JsonFile> json_of(const text::ReadFile& read, const char* file) {
  const auto text = read(file);
  if (!text) return std::nullopt;
  return JsonFile(file, *text);
}

/// "eos_token_id": a number or several.
std::vector<TokenId> end_tokens_of(const JsonFile& file) {
  if (!file.has("eos_token_id")) return {};
  const nlohmann::json& value = file.root().at("eos_token_id");
  std::vector<TokenId> ids;
  for (const nlohmann::json& id : value.is_array() ? value : nlohmann::json::array({value})) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX)
      throw file.error("eos_token_id is " + value.dump() + ", expected an id or a list of ids");
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

}  // namespace

LanguageModel::LanguageModel(graph::Graph graph, text::TextTokenizer tokenizer)
    : model_(with_logit_positions(std::move(graph))),
      ties_(find_ties(model_.graph())),
      tokenizer_(std::move(tokenizer)) {
  const graph::Graph& network = model_.graph();
  const auto is_tied = [&](const std::string& input) {
    return std::ranges::any_of(ties_, [&](const Tie& tie) { return tie.past == input; });
  };
  constexpr std::pair<const char*, Input> kKnown[] = {{"input_ids", Input::kIds},
                                                      {"attention_mask", Input::kMask},
                                                      {"position_ids", Input::kPositions},
                                                      {kLogitPositions, Input::kLogitPositions}};
  for (const std::string& input : network.inputs) {
    if (is_tied(input)) continue;
    const auto* const known =
        std::ranges::find_if(kKnown, [&](const auto& row) { return row.first == input; });
    if (known == std::end(kKnown))
      throw Error("its graph is no language model's: nothing says what to give its input " +
                  quote_text(input));
    inputs_.push_back(known->second);
  }
  keeps_positions_ = std::ranges::find(inputs_, Input::kLogitPositions) != inputs_.end();
  const auto found = std::ranges::find(network.outputs, "logits");
  const auto shape = found == network.outputs.end() ? std::nullopt : network.shape_of(*found);
  if (std::ranges::find(inputs_, Input::kIds) == inputs_.end() || ties_.empty() || !shape ||
      shape->size() != 3 || !shape->back().known())
    throw Error(
        "its graph is no language model's: expected an input input_ids, an output logits of three axes, and "
        "past and "
        "present keys and values");
  logits_ = static_cast<std::size_t>(found - network.outputs.begin());
  vocabulary_ = static_cast<std::size_t>(shape->back().size);
}

LanguageModel LanguageModel::load(graph::Graph graph, const text::ReadFile& read, const std::string& name) {
  try {
    const auto config_file = json_of(read, "config.json");
    if (!config_file) throw Error("it has no config.json, so nothing says how long its contexts may be");
    const DecoderConfig config = DecoderConfig::parse(*config_file);
    LanguageModel made(std::move(graph), text::TextTokenizer::load(read));
    // Added tokens may have no rows as long as no text contains them.
    if (static_cast<std::int64_t>(made.tokenizer_.largest_own_id()) >=
        static_cast<std::int64_t>(made.vocabulary_))
      throw Error("the tokenizer's ids go up to " + std::to_string(made.tokenizer_.largest_own_id()) +
                  ", but there are " + std::to_string(made.vocabulary_) + " logits");
    made.tokenizer_.expect_ids_below(made.vocabulary_);
    made.positions_ = config.max_positions;
    for (const RotaryEmbedding& rotation : config.rotations) {
      if (!rotation.long_frequencies.empty()) made.switch_at_ = rotation.switch_at;
    }
    if (const auto generation = json_of(read, "generation_config.json"))
      made.end_tokens_ = end_tokens_of(*generation);
    if (made.end_tokens_.empty()) made.end_tokens_ = end_tokens_of(*config_file);
    if (made.end_tokens_.empty() && made.tokenizer_.eos()) made.end_tokens_ = {*made.tokenizer_.eos()};
    try {
      made.chat_template_ = text::load_chat_template(read);
      made.no_chat_template_ =
          name + " has no chat template: neither chat_template.jinja nor one in tokenizer_config.json";
    } catch (const Error& error) {
      made.no_chat_template_ = name + ": " + error.what();
    }
    return made;
  } catch (const Error& error) {
    throw within(name, error);
  }
}

const text::ChatTemplate& LanguageModel::chat_template() const {
  if (!chat_template_) throw Error(no_chat_template_);
  return *chat_template_;
}

}  // namespace crumb::runtime
