#include "text/text_tokenizer.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "base/json/bounded_json.h"
#include "base/json/json_file.h"
#include "text/pipeline/decoders.h"
#include "text/pipeline/steps.h"
#include "text/stream_decoder.h"
#include "text/subword/bpe.h"
#include "text/subword/unigram.h"
#include "text/unicode.h"

namespace crumb::text {

struct TextTokenizer::Parts {
  std::variant<Bpe, Unigram> model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Frame frame;
  Decoder decoder;
  AddedTokens raw, normalized;
  std::map<TokenId, std::string> added;
  std::set<std::string> special;  // texts, as `tokenizers` tells special tokens from others
  std::optional<TokenId> bos, eos;

  const TokenTable& tokens() const {
    return std::visit([](const auto& m) -> const TokenTable& { return m.tokens(); }, model);
  }
  std::optional<TokenId> find(const std::string& token) const {
    for (const auto& [id, text] : added) {
      if (text == token) return id;
    }
    return tokens().find(token);
  }
};

namespace {

/// The long lists of a tokenizer.json, which are not kept as JSON.
struct ModelLists {
  TokenTable tokens;                                   // BPE's vocabulary
  std::vector<std::pair<std::string, double>> scored;  // Unigram's
  std::vector<std::pair<std::string, std::string>> merges;

  void take(const std::string& name, std::string_view path, std::string_view key,
            const nlohmann::json& value) {
    const JsonPlace place(value, name + ": " + std::string(path));
    if (path == "model.merges") return take_merge(place);
    if (!key.empty() || !value.is_array()) return tokens.add(key, place.id());
    if (value.size() != 2 || !value[0].is_string() || !value[1].is_number())
      throw place.error("expected a token and its score");
    scored.emplace_back(value[0].get<std::string>(), value[1].get<double>());
  }

  void take_merge(const JsonPlace& place) {
    const nlohmann::json& value = place.value();
    if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
      merges.emplace_back(value[0].get<std::string>(), value[1].get<std::string>());
      return;
    }
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      throw place.error("merge " + std::to_string(merges.size()) + " is not two tokens");
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
};

std::variant<Bpe, Unigram> make_model(const JsonPlace& place, ModelLists lists) {
  const std::string type = place.optional_string("type").value_or("BPE");
  const auto take = [&](auto result) {
    if (!result.ok()) throw place.error(result.failure().message);
    return std::move(result.value());
  };
  if (type == "Unigram") {
    Unigram::Options options;
    if (!place.at("unk_id").is_null()) options.unknown = place.count("unk_id");
    options.byte_fallback = place.boolean("byte_fallback", false);
    return take(Unigram::make(lists.scored, options));
  }
  if (type != "BPE") throw place.refuse("the model " + type);
  if (const JsonPlace dropout = place.at("dropout"); !dropout.is_null() && dropout.value() != 0.0)
    throw dropout.refuse("leaving merges out by chance");
  Bpe::Options options;
  options.unknown = place.optional_string("unk_token");
  options.continuing_prefix = place.optional_string("continuing_subword_prefix").value_or("");
  options.end_suffix = place.optional_string("end_of_word_suffix").value_or("");
  options.fuse_unknown = place.boolean("fuse_unk", false);
  options.byte_fallback = place.boolean("byte_fallback", false);
  options.ignore_merges = place.boolean("ignore_merges", false);
  return take(Bpe::make(std::move(lists.tokens), lists.merges, std::move(options)));
}

/// The text of a special token, which files write as a string or as an object.
std::optional<std::string> special_text(const JsonPlace& config, const char* key) {
  const JsonPlace place = config.at(key);
  if (place.is_null()) return std::nullopt;
  return place.value().is_object() ? place.string("content") : config.string(key);
}

}  // namespace

TextTokenizer TextTokenizer::load(const ReadFile& read, const std::string& path) {
  const std::string folder = path.empty() || path.ends_with('/') ? path : path + "/";
  const std::string name = folder + "tokenizer.json";
  const auto text = read(name);
  if (!text) throw Error("there is no " + name);
  ModelLists lists;
  constexpr std::array<std::string_view, 2> kLong = {"model.vocab", "model.merges"};
  const auto sink = [&](std::string_view at, std::string_view key, const nlohmann::json& value) {
    lists.take(name, at, key, value);
  };
  const nlohmann::json root =
      parse_bounded_json_members(std::as_bytes(std::span(*text)), {}, kLong, sink).take(name);
  const JsonPlace place(root, name + ": tokenizer");
  auto parts = std::make_shared<Parts>(Parts{.model = make_model(place.at("model"), std::move(lists)),
                                             .normalizer = read_normalizer(place.at("normalizer")),
                                             .pre_tokenizer = read_pre_tokenizer(place.at("pre_tokenizer")),
                                             .frame = read_frame(place.at("post_processor")),
                                             .decoder = read_decoder(place.at("decoder"))});
  std::vector<AddedToken> raw, normalized;
  for (const JsonPlace& object :
       place.at("added_tokens").is_null() ? std::vector<JsonPlace>() : place.list("added_tokens")) {
    const std::string content = object.string("content");
    if (content.empty()) continue;
    AddedToken token{.content = unicode::decode(content), .id = object.at("id").id()};
    token.single_word = object.boolean("single_word", false);
    token.lstrip = object.boolean("lstrip", false);
    token.rstrip = object.boolean("rstrip", false);
    const bool special = object.boolean("special", false);
    token.normalized = object.boolean("normalized", !special);
    if (special) parts->special.insert(content);
    parts->added[token.id] = content;
    if (token.normalized) token.content = unicode::decode(parts->normalizer(content));
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  parts->raw = AddedTokens(std::move(raw));
  parts->normalized = AddedTokens(std::move(normalized));
  if (const auto config_text = read(folder + "tokenizer_config.json")) {
    const JsonFile file(folder + "tokenizer_config.json", *config_text);
    const JsonPlace config(file.root(), file.name());
    const auto find = [&](const char* key) {
      const auto token = special_text(config, key);
      return token ? parts->find(*token) : std::nullopt;
    };
    parts->bos = find("bos_token");
    parts->eos = find("eos_token");
    if (file.has("add_bos_token") || file.has("add_eos_token")) {
      parts->frame = {};
      if (parts->bos && config.boolean("add_bos_token", false)) parts->frame.before = {*parts->bos};
      if (parts->eos && config.boolean("add_eos_token", false)) parts->frame.after = {*parts->eos};
    }
  }
  TextTokenizer tokenizer;
  tokenizer.parts_ = std::move(parts);
  return tokenizer;
}

std::vector<TokenId> TextTokenizer::encode(std::string_view text, bool add_special) const {
  const Parts& parts = *parts_;
  std::vector<TokenId> ids;
  if (add_special) ids = parts.frame.before;
  const std::u32string characters = unicode::decode(text);
  for (const TextPiece& piece : split_added_tokens(characters, parts.raw)) {
    if (piece.token) {
      ids.push_back(*piece.token);
      continue;
    }
    const bool first = piece.text.data() == characters.data();
    const std::string normalized = parts.normalizer(unicode::encode(piece.text));
    check_text_length(normalized.size());
    const std::u32string normal = unicode::decode(normalized);
    for (const TextPiece& part : split_added_tokens(normal, parts.normalized)) {
      if (part.token) {
        ids.push_back(*part.token);
        continue;
      }
      const bool begins = first && part.text.data() == normal.data();
      for (const Part& word : parts.pre_tokenizer({{unicode::encode(part.text), begins}})) {
        std::visit([&](const auto& model) { model.encode(word.text, ids); }, parts.model);
      }
    }
  }
  if (add_special) ids.insert(ids.end(), parts.frame.after.begin(), parts.frame.after.end());
  return ids;
}

std::string TextTokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  StreamDecoder stream(*this, skip_special);
  std::string text;
  for (const TokenId id : ids) text += stream.push(id);
  return text + stream.finish();
}

std::unique_ptr<TokenSink> TextTokenizer::decoder(std::unique_ptr<TokenSink> last) const {
  return parts_->decoder(std::move(last));
}

bool TextTokenizer::is_special(TokenId id) const {
  const std::string* const token = piece(id);
  return token != nullptr && parts_->special.contains(*token);
}

const std::string* TextTokenizer::piece(TokenId id) const {
  const auto added = parts_->added.find(id);
  return added == parts_->added.end() ? parts_->tokens().token(id) : &added->second;
}

std::optional<TokenId> TextTokenizer::bos() const { return parts_->bos; }
std::optional<TokenId> TextTokenizer::eos() const { return parts_->eos; }

TokenId TextTokenizer::largest_id() const {
  const TokenId added = parts_->added.empty() ? -1 : parts_->added.rbegin()->first;
  return std::max(added, parts_->tokens().largest_id());
}

}  // namespace crumb::text
