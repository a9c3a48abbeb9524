#include "runtime/sentences/sentence_tokenizer.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json/bounded_json.h"
#include "formats/checkpoint/encoder_limits.h"

namespace crumb::runtime {
namespace {

/// Whether a folder's tokenizer is WordPiece. A tokenizer.json without a type of its model, as old ones are,
/// is none where it has merges, or a list of tokens and scores.
bool is_word_piece(const ModelText& text, const std::string& path) {
  const auto read = [&](std::string_view name) { return text(std::string(name)); };
  const auto file = text(path + "tokenizer.json");
  if (!file) return text(path + "vocab.txt").has_value() || !text::has_text_tokenizer(read, path);
  constexpr std::array<std::string_view, 2> kLong = {"model.vocab", "model.merges"};
  bool has_merges = false, is_list = false;
  const auto sink = [&](std::string_view at, std::string_view key, const nlohmann::json&) {
    has_merges = has_merges || at == kLong[1];
    is_list = is_list || (at == kLong[0] && key.empty());
  };
  const nlohmann::json root = parse_bounded_json_members(std::as_bytes(std::span(*file)), {}, kLong, sink)
                                  .take(path + "tokenizer.json");
  const auto model = root.is_object() ? root.find("model") : root.end();
  if (!root.is_object() || model == root.end() || !model->is_object())
    return true;  // its reader says what is wrong
  const auto type = model->find("type");
  if (type != model->end() && type->is_string()) return *type == "WordPiece";
  return !has_merges && !is_list && !model->contains("merges");
}

/// The most tokens of a line as sentence-transformers has it: of the model, else of the tokenizer.
std::optional<std::size_t> stated_length(const ModelText& text, const std::string& path) {
  constexpr double kNoLimit = 1e9;  // above it a length stands for none: transformers writes 1e30
  if (const auto found = text(path + "sentence_bert_config.json")) {
    const JsonFile file(path + "sentence_bert_config.json", *found);
    if (file.boolean("do_lower_case").value_or(false))
      throw file.error("do_lower_case is true; with another tokenizer than BERT's it is not supported");
    if (const auto length = file.count("max_seq_length", 1)) return length;
  }
  const auto found = text(path + "tokenizer_config.json");
  if (!found) return std::nullopt;
  const JsonFile file(path + "tokenizer_config.json", *found);
  const auto length = file.number("model_max_length");
  if (!length || *length >= kNoLimit) return std::nullopt;
  return file.count("model_max_length", 1);
}

/// Whether the model's rows have types of tokens: unless tokenizer_config.json lists its inputs without them.
bool takes_types(const ModelText& text, const std::string& path) {
  const auto found = text(path + "tokenizer_config.json");
  if (!found) return true;
  const JsonFile file(path + "tokenizer_config.json", *found);
  const auto names = file.root().find("model_input_names");
  if (names == file.root().end() || !names->is_array()) return true;
  return std::ranges::find(*names, "token_type_ids") != names->end();
}

}  // namespace

SentenceTokenizer SentenceTokenizer::load(const ModelText& text, const std::string& name,
                                          const PromptChoice& prompt) {
  const std::string path = SentenceModules::transformer_path(text);
  const auto config_text = text(path + "config.json");
  if (!config_text) throw Error(name + " has no " + path + "config.json");
  const JsonFile config(path + "config.json", *config_text);
  const auto limits = EncoderLimits::parse(config);
  const auto read = [&](std::string_view file) { return text(std::string(file)); };
  std::optional<SentenceTokenizer> made;
  if (is_word_piece(text, path)) {
    auto tokenizer = text::Tokenizer::load(read, path);
    if (static_cast<std::size_t>(tokenizer.largest_id()) >= limits.vocab_size) {
      throw Error(name + ": the tokenizer's ids go up to " + std::to_string(tokenizer.largest_id()) +
                  ", but config.json says that there are " + std::to_string(limits.vocab_size) +
                  " embeddings");
    }
    const std::size_t length = tokenizer.max_length().value_or(limits.longest_text);
    made = SentenceTokenizer(std::move(tokenizer));
    made->limit_length(length);
  } else {
    auto tokenizer = text::TextTokenizer::load(read, path);
    tokenizer.expect_ids_below(limits.vocab_size);
    made = SentenceTokenizer(std::move(tokenizer));
    made->limit_length(stated_length(text, path).value_or(limits.longest_text));
  }
  made->limit_length(limits.longest_text);
  made->takes_types_ = takes_types(text, path);
  made->prompt_ = read_prompt(text, prompt);
  if (!made->prompt_.empty() && !SentenceModules::pools_prompts(text)) {
    const std::vector<text::TokenId> ids = made->encode_text(made->prompt_);
    made->unpooled_ = ids.size();
    if (!ids.empty() && made->is_special(ids.back())) --made->unpooled_;
  }
  return *std::move(made);
}

void SentenceTokenizer::limit_length(std::size_t tokens) {
  if (const auto* const other = std::get_if<text::TextTokenizer>(&tokenizer_)) {
    if (tokens <= other->tokens_around())
      throw Error("a line may have " + std::to_string(tokens) + " tokens, and " +
                  std::to_string(other->tokens_around()) + " stand around every text: none would be left");
  } else {
    std::get<text::Tokenizer>(tokenizer_).limit_length(tokens);
  }
  max_length_ = std::min(max_length_, tokens);
}

std::vector<text::TokenId> SentenceTokenizer::encode_text(const std::string& text) const {
  if (const auto* const words = std::get_if<text::Tokenizer>(&tokenizer_)) return words->encode(text);
  return std::get<text::TextTokenizer>(tokenizer_).encode_within(text, max_length_);
}

std::vector<text::TokenId> SentenceTokenizer::encode(const std::string& line) const {
  return encode_text(prompt_.empty() ? line : prompt_ + line);
}

text::PairTokens SentenceTokenizer::encode(const TextPair& pair) const {
  const std::string first = prompt_ + pair.first;
  text::PairTokens row;
  if (const auto* const words = std::get_if<text::Tokenizer>(&tokenizer_)) {
    row = words->encode_pair(first, pair.second);
  } else {
    const auto& other = std::get<text::TextTokenizer>(tokenizer_);
    if (max_length_ <= other.tokens_around_pairs())
      throw Error("a line may have " + std::to_string(max_length_) + " tokens, and " +
                  std::to_string(other.tokens_around_pairs()) +
                  " stand around every pair: none would be left");
    row = other.encode_pair_within(first, pair.second, max_length_);
  }
  if (!takes_types_) std::ranges::fill(row.types, 0);
  return row;
}

bool SentenceTokenizer::is_special(text::TokenId id) const {
  const auto* const other = std::get_if<text::TextTokenizer>(&tokenizer_);
  return other == nullptr || other->is_special(id);  // BERT's last token is [SEP]
}

}  // namespace crumb::runtime
