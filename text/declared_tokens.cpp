#include "text/declared_tokens.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "base/files/text.h"
#include "base/json/json_file.h"

namespace crumb::text {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array<const char*, 7> kNamed = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

/// A special token, which files write as a string or as an object.
std::optional<DeclaredToken> special_token(const nlohmann::json& value, const std::string& where) {
  if (value.is_null()) return std::nullopt;
  if (!value.is_object() && !value.is_string())
    throw Error(where + ": expected a token, as a string or an object");
  if (value.is_object()) return declared_token({value, where});
  return DeclaredToken{.content = value.get<std::string>(), .normalized = false, .special = true};
}

/// What the files of a folder say about tokens.
class TokenFiles {
 public:
  TokenFiles(const ReadFile& read, const std::string& folder, const UsualTokens& usual)
      : folder_(folder), usual_(usual) {
    const auto config = read(folder + "tokenizer_config.json");
    if (config) {
      config_.emplace(folder + "tokenizer_config.json", *config);
      ordered_ = OrderedJson::parse(*config);  // JsonFile holds its limits
    }
    has_decoder_ = config_ && config_->has("added_tokens_decoder");
    if (has_decoder_) {
      read_decoder();
      return;
    }
    if (const auto map = read(folder + "special_tokens_map.json")) {
      map_.emplace(folder + "special_tokens_map.json", *map);
      ordered_map_ = OrderedJson::parse(*map);
    }
    if (const auto added = read(folder + "added_tokens.json")) read_added(*added);
  }

  std::vector<DeclaredToken> beside(const std::vector<OwnToken>& own) {
    if (!has_decoder_)
      for (const OwnToken& token : own) by_id_[token.id] = token.token;
    std::vector<DeclaredToken> found;
    std::set<std::string> known;
    const std::vector<DeclaredToken> named = named_tokens();
    const auto is_named = [&](const std::string& content) {
      return std::ranges::find(named, content, &DeclaredToken::content) != named.end();
    };
    std::set<std::string> same;  // described alike
    for (const OwnToken& token : own) {
      known.insert(token.token.content);
      same.insert(text_of(token.token));
    }
    for (auto& [id, token] : by_id_) {
      if (token.content.empty() || same.contains(text_of(token))) continue;
      token.special = token.special || is_named(token.content);
      known.insert(token.content);
      found.push_back(token);
    }
    for (const std::vector<DeclaredToken>& tokens : {named, extra_tokens()})
      for (DeclaredToken token : tokens) {
        // Of two mentions the later one replaces the description, unless both say the same.
        if (token.content.empty() || known.contains(token.content) || !same.insert(text_of(token)).second)
          continue;
        token.special = token.special || is_named(token.content);
        found.push_back(std::move(token));
      }
    return found;
  }

 private:
  static std::string text_of(const DeclaredToken& token) {
    std::string text;
    for (const bool flag : {token.single_word, token.lstrip, token.rstrip, token.normalized, token.special})
      text += flag ? '1' : '0';
    return text + token.content;
  }

  void read_decoder() {
    const JsonPlace place = JsonPlace(config_->root(), config_->name()).at("added_tokens_decoder");
    if (!place.value().is_object()) throw place.error("expected a JSON object");
    for (const auto& [id, object] : place.value().items()) {
      TokenId number = -1;
      const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
      if (number < 0 || error != std::errc() || end != id.data() + id.size())
        throw place.error("the key " + quote_text(id) + " is no id");
      by_id_[number] = declared_token({object, config_->name() + ": added_tokens_decoder." + id});
    }
  }

  void read_added(const std::string& text) {
    const JsonFile added(folder_ + "added_tokens.json", text);
    std::set<std::string> special;
    for (const std::vector<DeclaredToken>& tokens : {named_tokens(), extra_tokens()})
      for (const DeclaredToken& token : tokens) special.insert(token.content);
    for (const auto& [content, id] : added.root().items()) {
      const bool is_special = special.contains(content);
      by_id_[JsonPlace(id, added.name() + ": " + content).id()] = {
          .content = content, .normalized = !is_special, .special = is_special};
    }
  }

  /// The value of a key; special_tokens_map.json has precedence.
  const nlohmann::json* find(const std::string& key, std::string& where) const {
    for (const auto* file : {&map_, &config_}) {
      if (!*file) continue;
      const auto found = (*file)->root().find(key);
      if (found == (*file)->root().end()) continue;
      where = (*file)->name() + ": " + key;
      return &*found;
    }
    return nullptr;
  }

  void add(std::vector<DeclaredToken>& tokens, const std::string& key) const {
    std::string where;
    const nlohmann::json* const value = find(key, where);
    if (value == nullptr) {
      const auto usual = usual_.find(key);
      if (usual != usual_.end())
        tokens.push_back({.content = usual->second, .normalized = false, .special = true});
      return;
    }
    if (auto token = special_token(*value, where)) tokens.push_back(*std::move(token));
  }

  std::vector<DeclaredToken> named_tokens() const {
    std::vector<DeclaredToken> tokens;
    for (const char* key : kNamed) add(tokens, key);
    // A model's own names, in the order of the file.
    for (const OrderedJson* file : {&ordered_, &ordered_map_})
      for (const auto& [key, value] : file->items())
        if (key.ends_with("_token") && value.is_string() && std::ranges::find(kNamed, key) == kNamed.end())
          tokens.push_back({.content = value.get<std::string>(), .normalized = false, .special = true});
    for (const OrderedJson* file : {&ordered_, &ordered_map_}) {
      const auto extra = file->find("extra_special_tokens");
      if (extra == file->end() || !extra->is_object()) continue;
      for (const auto& [key, value] : extra->items()) {
        const nlohmann::json plain = value;
        if (auto token = special_token(plain, folder_ + "tokenizer_config.json: extra_special_tokens." + key))
          tokens.push_back(*std::move(token));
      }
    }
    return tokens;
  }

  std::vector<DeclaredToken> extra_tokens() const {
    std::vector<DeclaredToken> tokens;
    for (const char* key : {"extra_special_tokens", "additional_special_tokens"})
      for (const auto* file : {&config_, &map_}) {
        if (!*file || !(*file)->has(key)) continue;
        const JsonPlace place = JsonPlace((*file)->root(), (*file)->name()).at(key);
        if (place.value().is_object() && std::string_view(key) == "extra_special_tokens") continue;
        for (const JsonPlace& item : JsonPlace((*file)->root(), (*file)->name()).list(key))
          if (auto token = special_token(item.value(), (*file)->name() + ": " + key))
            tokens.push_back(*std::move(token));
      }
    return tokens;
  }

  std::string folder_;
  const UsualTokens& usual_;
  std::optional<JsonFile> config_, map_;
  OrderedJson ordered_ = OrderedJson::object(), ordered_map_ = OrderedJson::object();
  bool has_decoder_ = false;
  std::map<TokenId, DeclaredToken> by_id_;
};

}  // namespace

DeclaredToken declared_token(const JsonPlace& object) {
  DeclaredToken token{.content = object.string("content")};
  token.single_word = object.boolean("single_word", false);
  token.lstrip = object.boolean("lstrip", false);
  token.rstrip = object.boolean("rstrip", false);
  token.special = object.boolean("special", false);
  token.normalized = object.boolean("normalized", !token.special);
  return token;
}

std::vector<DeclaredToken> tokens_beside(const std::vector<OwnToken>& own, const ReadFile& read,
                                         const std::string& folder, const UsualTokens& usual) {
  return TokenFiles(read, folder, usual).beside(own);
}

}  // namespace crumb::text
