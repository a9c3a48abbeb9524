#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/files/counted.h"
#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "formats/gguf/config_keys.h"
#include "formats/gguf/gguf_metadata.h"
#include "formats/gguf/pre_tokenizer.h"
#include "formats/gguf/vocabulary.h"

namespace crumb {
namespace {

using TextJson = nlohmann::json;

constexpr std::string_view kSpaceMark = "\u2581";

/// Ends the making: what() is the Failure.
struct CannotHold {
  std::string why;
};

const TextJson& member_of(const TextJson& object, const char* key) {
  static const TextJson nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

std::string text_in(const TextJson& object, const char* key) {
  const TextJson& found = member_of(object, key);
  return found.is_string() ? found.get<std::string>() : "";
}

bool flag_in(const TextJson& object, const char* key) {
  const TextJson& found = member_of(object, key);
  return found.is_boolean() && found.get<bool>();
}

TextJson parsed(std::string_view name, std::string_view text) {
  if (text.empty()) return TextJson::object();
  Result<TextJson> json = parse_bounded_json(std::as_bytes(std::span(text)));
  if (!json.ok()) throw CannotHold{std::string(name) + ": " + json.failure().message};
  return json.take();
}

/// The steps of a sequence, or the one step; none of null.
std::vector<TextJson> steps_of(const TextJson& step, const char* member) {
  if (step.is_null()) return {};
  if (text_in(step, "type") != "Sequence") return {step};
  std::vector<TextJson> steps;
  for (const TextJson& part : member_of(step, member)) steps.push_back(part);
  return steps;
}

class TokenizerMaker {
 public:
  TokenizerMaker(const TokenizerTexts& texts, const TextJson& config, std::uint64_t rows,
                 std::vector<std::string>& notes)
      : texts_(texts),
        config_(config),
        settings_(parsed("tokenizer_config.json", texts.tokenizer_config)),
        generation_(parsed("generation_config.json", texts.generation_config)),
        rows_(rows),
        notes_(notes) {}

  std::vector<GgufPair> make() {
    if (texts_.tokenizer.empty()) {
      put("ggml.model", std::string("none"));
    } else {
      read();
      lay_tokens();
      const bool by_bytes = !flag_in(member_of(root_, "model"), "byte_fallback");
      put("ggml.model", std::string(by_bytes ? "gpt2" : "llama"));
      if (by_bytes)
        byte_level();
      else
        sentencepiece();
      put("ggml.tokens", std::vector<std::string>(tokens_));
      put("ggml.token_type", types());
    }
    special_tokens();
    chat_template();
    return std::move(made_);
  }

 private:
  void put(const char* key, GgufDatum value) {
    made_.push_back({"tokenizer." + std::string(key), std::move(value)});
  }

  void read() {
    constexpr std::array<std::string_view, 2> kLong = {"model.vocab", "model.merges"};
    const auto sink = [&](std::string_view path, std::string_view key, const TextJson& value) {
      if (path == "model.vocab") {
        if (value.is_array()) return;  // of a Unigram model, which is refused
        if (!value.is_number_unsigned()) throw CannotHold{no_row("token", key)};
        if (value.get<std::uint64_t>() >= rows_) return void(without_row_.emplace(key));
        if (!ids_.emplace(key, value.get<std::uint32_t>()).second)
          throw CannotHold{"tokenizer.json: token " + quote_text(key) + " occurs twice"};
      } else {
        take_merge(value);
      }
    };
    Result<TextJson> json =
        parse_bounded_json_members(std::as_bytes(std::span(texts_.tokenizer)), {}, kLong, sink);
    if (!json.ok()) throw CannotHold{"tokenizer.json: " + json.failure().message};
    root_ = json.take();
    const std::string type = text_in(member_of(root_, "model"), "type");
    if (type != "BPE" && !type.empty())
      throw CannotHold{"the tokenizer's model is " + quote_text(type) + "; to GGUF goes BPE"};
  }

  std::string no_row(const char* what, std::string_view token) const {
    return "tokenizer.json: the " + std::string(what) + " " + quote_text(token) +
           " has no number below the embedding's " + std::to_string(rows_) + " rows";
  }

  void take_merge(const TextJson& value) {
    std::string left, right;
    if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
      left = value[0].get<std::string>();
      right = value[1].get<std::string>();
    } else if (value.is_string()) {
      const std::string text = value.get<std::string>();
      const std::size_t space = text.find(' ', 1);
      left = text.substr(0, space);
      if (space != std::string::npos) right = text.substr(space + 1);
    }
    if (left.empty() || right.empty())
      throw CannotHold{"tokenizer.json: merge " + std::to_string(merges_.size()) + " is not two tokens"};
    merges_.emplace_back(std::move(left), std::move(right));
  }

  /// Every token at its number, unused ones in the gaps. Added tokens past the embedding's rows are left out:
  /// no text can use them.
  void lay_tokens() {
    tokens_.resize(rows_);
    types_.assign(rows_, TokenType::kUnused);
    for (const auto& [token, id] : ids_) place(id, token, TokenType::kNormal);
    std::vector<std::string> left_out;
    for (const TextJson& token : member_of(root_, "added_tokens")) {
      const TextJson& id = member_of(token, "id");
      const std::string content = text_in(token, "content");
      if (!id.is_number_unsigned()) throw CannotHold{no_row("added token", content)};
      if (id.get<std::uint64_t>() >= rows_) {
        without_row_.erase(content);
        left_out.push_back(content);
        continue;
      }
      const auto number = id.get<std::uint32_t>();
      place(number, content, flag_in(token, "special") ? TokenType::kControl : TokenType::kUserDefined);
      ids_.insert_or_assign(content, number);
      if (flag_in(token, "lstrip") || flag_in(token, "rstrip") || flag_in(token, "single_word")) ++trimming_;
    }
    if (!without_row_.empty()) throw CannotHold{no_row("token", *without_row_.begin())};
    if (!left_out.empty())
      notes_.push_back("left out " + count_text(left_out.size(), "added token") + " that the embedding's " +
                       std::to_string(rows_) + " rows do not reach, " + quote_text(left_out[0]) + " first");
    if (trimming_ > 0)
      notes_.push_back(count_text(trimming_, "added token") +
                       " may be trimmed or stand as whole words alone, which GGUF does not say");
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      if (types_[i] == TokenType::kUnused) tokens_[i] = unused_name(i);
    std::set<std::string_view> seen;
    for (const std::string& token : tokens_)
      if (!seen.insert(token).second)
        throw CannotHold{"tokenizer.json: the token " + quote_text(token) + " has two numbers"};
  }

  /// What llama.cpp's converter calls the token of a row that the tokenizer has no token for.
  static std::string unused_name(std::size_t id) { return "[PAD" + std::to_string(id) + "]"; }

  void place(std::uint32_t id, const std::string& token, TokenType type) {
    if (types_[id] != TokenType::kUnused && tokens_[id] != token)
      throw CannotHold{"tokenizer.json: the tokens " + quote_text(tokens_[id]) + " and " + quote_text(token) +
                       " have the number " + std::to_string(id) + " both"};
    tokens_[id] = token;
    types_[id] = token == unused_name(id) ? TokenType::kUnused : type;
  }

  std::vector<std::int32_t> types() const {
    std::vector<std::int32_t> numbers;
    for (const TokenType type : types_) numbers.push_back(static_cast<std::int32_t>(type));
    return numbers;
  }

  [[noreturn]] static void refuse_words(const TextJson& words, const TextJson& normal, bool ignores) {
    const std::string around =
        "normalizer " + quote_text(normal.dump()) + ", ignore_merges " + (ignores ? "true" : "false");
    const PreTokenizer* const near = match_words(words);
    if (near != nullptr)
      throw CannotHold{"the tokenizer splits text into words as " + quote_text(near->name) +
                       " does in GGUF, but has what no such name stands for: " + around};
    throw CannotHold{
        "the way the tokenizer splits text into words has no name in GGUF that Crumb knows: "
        "pre_tokenizer " +
        quote_text(words.dump()) + ", " + around};
  }

  void byte_level() {
    const TextJson& words = member_of(root_, "pre_tokenizer");
    const TextJson& normal = member_of(root_, "normalizer");
    const bool ignores = flag_in(member_of(root_, "model"), "ignore_merges");
    const PreTokenizer* const found = match_pre_tokenizer(words, normal, ignores);
    if (found == nullptr) refuse_words(words, normal, ignores);
    put("ggml.pre", std::string(found->name));
    put("ggml.add_space_prefix", false);
    std::vector<std::string> merges;
    for (const auto& [left, right] : merges_) {
      if (left.find(' ') != std::string::npos || right.find(' ') != std::string::npos)
        throw CannotHold{"tokenizer.json: the merge of " + quote_text(left) + " and " + quote_text(right) +
                         " holds a space, which a byte-level vocabulary has none of"};
      merges.push_back(left + " " + right);
    }
    put("ggml.merges", std::move(merges));
  }

  void sentencepiece() {
    put("ggml.pre", std::string("default"));
    put("ggml.add_space_prefix", adds_space());
    const std::string unknown = text_in(member_of(root_, "model"), "unk_token");
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i] == unknown && !unknown.empty()) types_[i] = TokenType::kUnknown;
      const bool is_byte =
          tokens_[i].size() == 6 && tokens_[i].starts_with("<0x") && tokens_[i].ends_with('>');
      if (is_byte && types_[i] == TokenType::kNormal) types_[i] = TokenType::kByte;
    }
    put("ggml.scores", scores());
  }

  /// Whether a space is put before a text. Everything else must be SentencePiece's spelling of spaces.
  bool adds_space() const {
    bool adds = false;
    for (const TextJson& step : steps_of(member_of(root_, "normalizer"), "normalizers")) {
      const std::string type = text_in(step, "type");
      if (type == "Prepend" && text_in(step, "prepend") == kSpaceMark) {
        adds = true;
      } else if (type != "Replace" || text_in(step, "content") != kSpaceMark ||
                 text_in(member_of(step, "pattern"), "String") != " ") {
        throw CannotHold{"the tokenizer's normalizer " + quote_text(step.dump()) + " has no place in GGUF"};
      }
    }
    for (const TextJson& step : steps_of(member_of(root_, "pre_tokenizer"), "pretokenizers")) {
      const std::string type = text_in(step, "type"), scheme = text_in(step, "prepend_scheme");
      if (type == "Metaspace" && text_in(step, "replacement") == kSpaceMark) {
        if (scheme != "never") adds = true;
      } else if (type != "Split" || text_in(member_of(step, "pattern"), "String") != " ") {
        throw CannotHold{"the tokenizer's pre_tokenizer " + quote_text(step.dump()) +
                         " has no place in GGUF"};
      }
    }
    return adds;
  }

  /// By the tokens that merges make: the number of those that come before in the order of scores. Merges of a
  /// token follow each other, but for tokens of one score, whose merges are among each other.
  std::map<std::string, std::size_t> ranks() const {
    std::map<std::string, std::size_t> last, rank;
    for (std::size_t i = 0; i < merges_.size(); ++i) last[merges_[i].first + merges_[i].second] = i;
    std::size_t group = 0, end = 0;
    for (std::size_t i = 0; i < merges_.size(); ++i) {
      const std::string token = merges_[i].first + merges_[i].second;
      if (i > end) ++group;
      end = std::max(end, last[token]);
      rank[token] = group;
    }
    return rank;
  }

  /// The less the later a token is made: then the merges follow from the scores again.
  std::vector<float> scores() const {
    const std::map<std::string, std::size_t> rank = ranks();
    Vocabulary vocabulary;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      vocabulary.tokens.push_back(tokens_[i]);
      vocabulary.types.push_back(types_[i]);
      const auto found = rank.find(tokens_[i]);
      vocabulary.scores.push_back(-static_cast<float>(found == rank.end() ? merges_.size() : found->second));
    }
    TokenIds ids;
    for (std::uint32_t i = 0; i < tokens_.size(); ++i) ids.emplace(tokens_[i], i);
    const TokenPairs made = merges_by_score(vocabulary, ids);
    const auto same = std::ranges::mismatch(made, merges_, [](const auto& a, const auto& b) {
      return a.first == b.first && a.second == b.second;
    });
    if (same.in1 != made.end() || same.in2 != merges_.end())
      throw CannotHold{
          "tokenizer.json: its merges do not follow from scores of its tokens, which is all that "
          "GGUF has for such a vocabulary (merge " +
          std::to_string(same.in2 - merges_.begin()) + ")"};
    return std::move(vocabulary.scores);
  }

  // --- special tokens ---

  std::optional<std::uint32_t> id_of(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  /// Of tokenizer_config.json, "bos_token": a text, or an object with it.
  std::optional<std::uint32_t> named(const char* key) const {
    const TextJson& token = member_of(settings_, key);
    return id_of(token.is_object() ? text_in(token, "content") : text_in(settings_, key));
  }

  /// A number, or a list of them.
  static std::vector<std::uint32_t> numbers_in(const TextJson& object, const char* key) {
    std::vector<std::uint32_t> numbers;
    const TextJson& found = member_of(object, key);
    for (const TextJson& number : found.is_array() ? found : TextJson::array({found}))
      if (number.is_number_unsigned()) numbers.push_back(number.get<std::uint32_t>());
    return numbers;
  }

  /// The tokenizer's own, else the configurations' first.
  std::optional<std::uint32_t> special(const char* name, const char* key) const {
    if (const auto own = named(name)) return own;
    for (const TextJson* file : {&generation_, &config_})
      if (const auto numbers = numbers_in(*file, key); !numbers.empty()) return numbers[0];
    return std::nullopt;
  }

  void special_tokens() {
    const auto begin = special("bos_token", "bos_token_id"), end = special("eos_token", "eos_token_id");
    const auto put_id = [&](const char* key, const std::optional<std::uint32_t>& id) {
      if (id && *id < rows_) put(key, *id);
    };
    put_id("ggml.bos_token_id", begin);
    put_ends(end);
    put_id("ggml.unknown_token_id", named_unknown());
    put_id("ggml.padding_token_id", special("pad_token", "pad_token_id"));
    if (!texts_.tokenizer.empty()) put_frame(begin, end);
  }

  std::optional<std::uint32_t> named_unknown() const {
    if (const auto own = named("unk_token")) return own;
    return id_of(text_in(member_of(root_, "model"), "unk_token"));
  }

  /// All that end an answer, the tokenizer's own first.
  void put_ends(const std::optional<std::uint32_t>& own) {
    std::vector<std::uint32_t> ends;
    if (own && *own < rows_) ends.push_back(*own);
    for (const TextJson* file : {&std::as_const(generation_), &config_})
      for (const std::uint32_t id : numbers_in(*file, "eos_token_id"))
        if (id < rows_ && std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
    for (std::size_t i = 0; i < ends.size() && i < kGgufEndTokens.size(); ++i)
      made_.push_back({kGgufEndTokens[i], ends[i]});
    if (ends.size() > kGgufEndTokens.size())
      notes_.push_back(std::to_string(ends.size()) + " tokens end an answer, of which GGUF holds " +
                       std::to_string(kGgufEndTokens.size()));
  }

  /// Which tokens stand around a text, as the tokenizer's own settings say, else its post-processor.
  void put_frame(const std::optional<std::uint32_t>& begin, const std::optional<std::uint32_t>& end) {
    if (settings_.contains("add_bos_token") || settings_.contains("add_eos_token")) {
      put("ggml.add_bos_token", flag_in(settings_, "add_bos_token"));
      put("ggml.add_eos_token", flag_in(settings_, "add_eos_token"));
      return;
    }
    std::vector<std::uint32_t> before, after;
    for (const TextJson& step : steps_of(member_of(root_, "post_processor"), "processors")) {
      const std::string type = text_in(step, "type");
      if (type == "ByteLevel") continue;
      if (type != "TemplateProcessing")
        throw CannotHold{"the tokenizer's post_processor is " + quote_text(type) +
                         ", which has no place in GGUF"};
      bool behind = false;
      for (const TextJson& part : member_of(step, "single")) {
        behind = behind || part.contains("Sequence");
        if (const TextJson& token = member_of(part, "SpecialToken"); token.is_object())
          (behind ? after : before).push_back(id_of(text_in(token, "id")).value_or(UINT32_MAX));
      }
    }
    const auto adds = [](const std::vector<std::uint32_t>& around, const std::optional<std::uint32_t>& id,
                         const char* place) {
      if (around.empty()) return false;
      if (around.size() == 1 && id == around[0]) return true;
      throw CannotHold{"the tokenizer puts " + count_text(around.size(), "token") + " " + place +
                       " a text, of which GGUF can say the one that is the model's own"};
    };
    put("ggml.add_bos_token", adds(before, begin, "before"));
    put("ggml.add_eos_token", adds(after, end, "behind"));
  }

  void chat_template() {
    std::string text(texts_.chat_template);
    const TextJson& given = member_of(settings_, "chat_template");
    if (text.empty() && given.is_string()) text = given.get<std::string>();
    if (text.empty() && given.is_array())
      for (const TextJson& one : given)
        if (text_in(one, "name") == "default") text = text_in(one, "template");
    if (!text.empty()) put("chat_template", std::move(text));
  }

  const TokenizerTexts& texts_;
  const TextJson& config_;
  TextJson settings_, generation_, root_;
  std::uint64_t rows_;
  std::vector<std::string>& notes_;
  std::map<std::string, std::uint32_t, std::less<>> ids_;
  std::set<std::string> without_row_;  ///< the vocabulary's, not the added tokens'
  std::vector<std::pair<std::string, std::string>> merges_;
  std::vector<std::string> tokens_;
  std::vector<TokenType> types_;
  std::uint64_t trimming_ = 0;
  std::vector<GgufPair> made_;
};

}  // namespace

Result<std::vector<GgufPair>> tokenizer_metadata(const TokenizerTexts& texts, const nlohmann::json& config,
                                                 std::uint64_t rows, std::vector<std::string>& notes) {
  try {
    return TokenizerMaker(texts, config, rows, notes).make();
  } catch (const CannotHold& found) {
    return Failure{found.why};
  }
}

}  // namespace crumb
