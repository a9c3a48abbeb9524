// tokenizer.json and tokenizer_config.json from tokenizer.ggml.*.
//
// model "gpt2" is byte-level BPE, with the splitting of words that tokenizer.ggml.pre names; "llama" is
// SentencePiece's BPE with byte fallback, whose merges are found from the scores (vocabulary.h); "gemma4" is
// the same with merges in the file.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files/text.h"
#include "formats/gguf/hf_files.h"
#include "formats/gguf/pre_tokenizer.h"
#include "formats/gguf/vocabulary.h"

namespace crumb {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostMerges = std::uint64_t{1} << 21;
constexpr std::uint64_t kLongestToken = 1024;
constexpr std::uint64_t kMostText = std::uint64_t{60} << 20;

Json replace(const char* what, const char* by) {
  return {{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", by}};
}

Result<Vocabulary> read_vocabulary(const GgufHeader& header) {
  Vocabulary made;
  const auto read = [&](const char* key, GgufValueType type, auto sink) -> Status {
    const GgufValue* array = header.find(key);
    if (array == nullptr) return {};
    const auto fail = [&](const std::string& why) {
      return Failure{"metadata " + quote_text(key) + ": " + why};
    };
    if (array->count > kMostTokens) return fail("more than " + std::to_string(kMostTokens) + " elements");
    const Status done = gguf_for_each(*array, type, sink);
    if (!done.ok()) return fail(done.failure().message);
    if (array->count != made.tokens.size())
      return fail("it has " + std::to_string(array->count) + " elements, expected one for each of " +
                  std::to_string(made.tokens.size()) + " tokens");
    return {};
  };
  Status done = read("tokenizer.ggml.tokens", GgufValueType::kText, [&](const GgufValue& value) -> Status {
    const Result<std::string_view> token = gguf_text(value);
    if (!token.ok()) return token.failure();
    if (token.value().size() > kLongestToken) return Failure{"a token of " + byte_text(token.value().size())};
    made.bytes += token.value().size();
    made.tokens.push_back(token.value());
    return {};
  });
  if (!done.ok()) return done.failure();
  if (made.tokens.empty()) return Failure{"the file holds no tokens (metadata 'tokenizer.ggml.tokens')"};
  if (made.bytes > kMostText / 4) return Failure{"its tokens have " + byte_text(made.bytes)};
  done = read("tokenizer.ggml.token_type", GgufValueType::kI32, [&](const GgufValue& value) -> Status {
    const Result<std::uint64_t> type = gguf_natural(value);
    if (!type.ok()) return type.failure();
    made.types.push_back(static_cast<TokenType>(
        std::min<std::uint64_t>(type.value(), static_cast<unsigned>(TokenType::kOther))));
    return {};
  });
  if (!done.ok()) return done.failure();
  made.types.resize(made.tokens.size(), TokenType::kNormal);
  done = read("tokenizer.ggml.scores", GgufValueType::kF32, [&](const GgufValue& value) -> Status {
    const double score = gguf_number(value).value();
    if (std::isnan(score)) return Failure{"a score is no number"};
    made.scores.push_back(static_cast<float>(score));
    return {};
  });
  if (!done.ok()) return done.failure();
  return made;
}

Result<TokenIds> ids_of(const Vocabulary& vocabulary) {
  TokenIds ids(vocabulary.tokens.size());
  for (std::uint32_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (!ids.emplace(vocabulary.tokens[i], i).second)
      return Failure{"the token " + quote_text(vocabulary.tokens[i]) + " occurs twice"};
  return ids;
}

std::string quoted(std::string_view text) { return Json(text).dump(); }

Json added_tokens(const Vocabulary& vocabulary) {
  Json added = Json::array();
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const TokenType type = vocabulary.types[i];
    if (type != TokenType::kControl && type != TokenType::kUserDefined && type != TokenType::kUnknown)
      continue;
    added.push_back({{"id", i},
                     {"content", vocabulary.tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type != TokenType::kUserDefined}});
  }
  return added;
}

/// What stands in the file, "left right": a token of a byte-level vocabulary has no space.
Result<TokenPairs> merges_in_file(const GgufHeader& header) {
  constexpr const char* kKey = "tokenizer.ggml.merges";
  TokenPairs pairs;
  const GgufValue* array = header.find(kKey);
  const auto fail = [](const std::string& why) {
    return Failure{"metadata " + quote_text(kKey) + ": " + why};
  };
  if (array == nullptr) return fail("it is missing");
  if (array->count > kMostMerges || array->bytes.size() > kMostText / 2) return fail("it is too long");
  const Status done = gguf_for_each(*array, GgufValueType::kText, [&](const GgufValue& value) -> Status {
    const Result<std::string_view> text = gguf_text(value);
    if (!text.ok()) return text.failure();
    const std::size_t space = text.value().find(' ', 1);
    if (space == std::string_view::npos) return Failure{quote_text(text.value()) + " is no pair"};
    pairs.emplace_back(text.value().substr(0, space), text.value().substr(space + 1));
    return {};
  });
  if (!done.ok()) return fail(done.failure().message);
  return pairs;
}

/// A token's text before or behind the sequence, or nothing.
struct Around {
  std::optional<std::uint64_t> bos, eos;
};

Result<Around> tokens_around(const GgufHeader& header, const Vocabulary& vocabulary, bool adds_bos) {
  GgufFields fields(header);
  Around around;
  if (fields.flag("tokenizer.ggml.add_bos_token").value_or(adds_bos))
    around.bos = fields.natural("tokenizer.ggml.bos_token_id");
  if (fields.flag("tokenizer.ggml.add_eos_token").value_or(false))
    around.eos = fields.natural("tokenizer.ggml.eos_token_id");
  for (const auto& id : {around.bos, around.eos})
    if (id && *id >= vocabulary.tokens.size()) fields.refuse("tokenizer.ggml.bos_token_id", "it is no token");
  if (!fields.status().ok()) return fields.status().failure();
  return around;
}

Json post_processor(const Around& around, const Vocabulary& vocabulary, Json otherwise) {
  if (!around.bos && !around.eos) return otherwise;
  Json single = Json::array(), pair = Json::array(), special = Json::object();
  const auto put = [&](Json& list, const std::optional<std::uint64_t>& id, int type) {
    if (!id) return;
    const std::string text(vocabulary.tokens[*id]);
    list.push_back({{"SpecialToken", {{"id", text}, {"type_id", type}}}});
    special[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
  };
  const auto put_all = [&](Json& list, const char* name, int type) {
    put(list, around.bos, type);
    list.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    put(list, around.eos, type);
  };
  put_all(single, "A", 0);
  put_all(pair, "A", 0);
  put_all(pair, "B", 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

/// The whole file: vocabulary and merges are long, the rest is not.
std::string tokenizer_text(const Json& head, const Json& model, const Vocabulary& vocabulary,
                           const TokenPairs& merges) {
  std::string text = head.dump();
  text.pop_back();
  std::string model_text = model.dump();
  model_text.pop_back();
  text += ",\"model\":" + model_text + ",\"vocab\":{";
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    text += (i == 0 ? "" : ",") + quoted(vocabulary.tokens[i]) + ":" + std::to_string(i);
  text += "},\"merges\":[";
  for (std::size_t i = 0; i < merges.size(); ++i)
    text += (i == 0 ? "[" : ",[") + quoted(merges[i].first) + "," + quoted(merges[i].second) + "]";
  return text + "]}}\n";
}

Json bpe_model(const Json& unknown, bool fuse, bool bytes, bool ignore_merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", fuse},
          {"byte_fallback", bytes},
          {"ignore_merges", ignore_merges}};
}

Json head_of(const Vocabulary& vocabulary, Json normalizer, Json pre, Json post, Json decoder) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(vocabulary)},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre)},
          {"post_processor", std::move(post)},
          {"decoder", std::move(decoder)}};
}

Result<std::string> byte_level_tokenizer(const GgufHeader& header, const Vocabulary& vocabulary) {
  GgufFields fields(header);
  const std::string name(fields.text("tokenizer.ggml.pre").value_or("default"));
  if (!fields.status().ok()) return fields.status().failure();
  const PreTokenizer* pre = find_pre_tokenizer(name);
  if (pre == nullptr) {
    const std::string why(why_not_read(name));
    return Failure{"its splitting into words, " + quote_text(name) +
                   " (metadata 'tokenizer.ggml.pre'), is not " + (why.empty() ? "known" : "read: " + why)};
  }
  const auto merges = merges_in_file(header);
  if (!merges.ok()) return merges.failure();
  const Result<Around> around = tokens_around(header, vocabulary, pre->adds_bos);
  if (!around.ok()) return around.failure();
  return tokenizer_text(head_of(vocabulary, normalizer_of(*pre), words_of(*pre),
                                post_processor(around.value(), vocabulary, nullptr), byte_level_step(true)),
                        bpe_model(nullptr, false, false, pre->ignore_merges), vocabulary, merges.value());
}

Result<TokenPairs> merges_from_scores(const Vocabulary& vocabulary) {
  if (vocabulary.scores.empty()) return Failure{"metadata 'tokenizer.ggml.scores': it is missing"};
  const Result<TokenIds> ids = ids_of(vocabulary);
  if (!ids.ok()) return ids.failure();
  return merges_by_score(vocabulary, ids.value());
}

/// Pairs of text in which spaces are marks, and bytes where no token is. `is_spm`: SentencePiece's own, with
/// scores; else with merges.
Result<std::string> marked_spaces_tokenizer(const GgufHeader& header, const Vocabulary& vocabulary,
                                            bool is_spm) {
  const Result<TokenPairs> merges = is_spm ? merges_from_scores(vocabulary) : merges_in_file(header);
  if (!merges.ok()) return merges.failure();
  const Result<Around> around = tokens_around(header, vocabulary, true);
  if (!around.ok()) return around.failure();
  GgufFields fields(header);
  const bool prefix = fields.flag("tokenizer.ggml.add_space_prefix").value_or(is_spm);
  const std::uint64_t unknown = fields.natural("tokenizer.ggml.unknown_token_id").value_or(0);
  if (unknown >= vocabulary.tokens.size()) fields.refuse("tokenizer.ggml.unknown_token_id", "it is no token");
  if (!fields.status().ok()) return fields.status().failure();
  Json normalizer = replace(" ", "\u2581");
  Json decoder = Json::array({replace("\u2581", " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (prefix) {
    normalizer =
        sequence_of("normalizers", Json::array({{{"type", "Prepend"}, {"prepend", "\u2581"}}, normalizer}));
    decoder.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return tokenizer_text(
      head_of(vocabulary, normalizer, nullptr, post_processor(around.value(), vocabulary, nullptr),
              sequence_of("decoders", decoder)),
      bpe_model(std::string(vocabulary.tokens[unknown]), true, true, false), vocabulary, merges.value());
}

/// Behind "its kind is not".
std::string why_kind_is_not_read(std::string_view kind) {
  if (kind == "bert") return "read: it is WordPiece, of encoders";
  if (kind == "t5") return "read: it is a Unigram vocabulary, of encoders and of T5";
  if (kind == "rwkv" || kind == "plamo2")
    return "read: it finds tokens by their longest match or their scores, as no tokenizer.json does";
  return "known";
}

}  // namespace

Result<std::string> make_tokenizer(const GgufHeader& header) {
  GgufFields fields(header);
  const std::string model(fields.text("tokenizer.ggml.model").value_or("none"));
  if (!fields.status().ok()) return fields.status().failure();
  if (model != "gpt2" && model != "llama" && model != "gemma4")
    return Failure{"its kind, " + quote_text(model) + " (metadata 'tokenizer.ggml.model'), is not " +
                   why_kind_is_not_read(model) + "; read are 'gpt2', 'llama' and 'gemma4'"};
  const Result<Vocabulary> vocabulary = read_vocabulary(header);
  if (!vocabulary.ok()) return vocabulary.failure();
  if (const Result<TokenIds> ids = ids_of(vocabulary.value()); !ids.ok()) return ids.failure();
  Result<std::string> text = model == "gpt2"
                                 ? byte_level_tokenizer(header, vocabulary.value())
                                 : marked_spaces_tokenizer(header, vocabulary.value(), model == "llama");
  if (text.ok() && text.value().size() > kMostText)
    return Failure{"it takes " + byte_text(text.value().size())};
  return text;
}

Result<std::string> make_tokenizer_config(const GgufHeader& header) {
  GgufFields fields(header);
  const Result<Vocabulary> vocabulary = read_vocabulary(header);
  if (!vocabulary.ok()) return vocabulary.failure();
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  for (const auto& [name, key] :
       {std::pair("bos_token", "bos_token_id"), std::pair("eos_token", "eos_token_id"),
        std::pair("unk_token", "unknown_token_id"), std::pair("pad_token", "padding_token_id")}) {
    const std::string full = std::string("tokenizer.ggml.") + key;
    const std::optional<std::uint64_t> id = fields.natural(full);
    if (id && *id >= vocabulary.value().tokens.size())
      fields.refuse(full, std::to_string(*id) + " is no token");
    if (id && fields.status().ok()) config[name] = vocabulary.value().tokens[*id];
  }
  for (const char* name : {"add_bos_token", "add_eos_token"})
    if (const auto adds = fields.flag(std::string("tokenizer.ggml.") + name)) config[name] = *adds;
  if (const auto chat = fields.text("tokenizer.chat_template")) config["chat_template"] = *chat;
  if (!fields.status().ok()) return fields.status().failure();
  return config.dump(2) + "\n";
}

}  // namespace crumb
