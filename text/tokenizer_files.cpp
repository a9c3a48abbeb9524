#include "text/tokenizer_files.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "base/json/json_file.h"
#include "text/declared_tokens.h"
#include "text/unicode.h"

namespace crumb::text {
namespace {

using nlohmann::json;

/// Above this a length stands for "no limit" (`transformers` writes 1e30).
constexpr double kNoLimit = 1e9;

struct Files {
  std::string folder;
  std::optional<JsonFile> tokenizer;
  std::optional<JsonFile> config;
  std::optional<JsonFile> special_tokens;
  std::optional<JsonFile> sentence;
  std::optional<std::string> vocab_text;
};

Files open_files(const ReadFile& read, const std::string& path) {
  Files files;
  files.folder = path.empty() || path.ends_with('/') ? path : path + "/";
  const auto open = [&](const char* name) -> std::optional<JsonFile> {
    const auto text = read(files.folder + name);
    return text ? std::optional<JsonFile>(std::in_place, files.folder + name, *text) : std::nullopt;
  };
  files.tokenizer = open("tokenizer.json");
  files.config = open("tokenizer_config.json");
  files.special_tokens = open("special_tokens_map.json");
  files.sentence = open("sentence_bert_config.json");
  files.vocab_text = read(files.folder + "vocab.txt");
  return files;
}

void check_class(const Files& files) {
  constexpr std::array kClasses = {"BertTokenizer",      "BertTokenizerFast",       "MPNetTokenizer",
                                   "MPNetTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"};
  if (!files.config) return;
  const auto found = files.config->string("tokenizer_class");
  if (found && std::ranges::find(kClasses, *found) == kClasses.end()) {
    throw files.config->error("tokenizer_class is " + *found +
                              "; supported is WordPiece as BERT has it (BertTokenizer, BertTokenizerFast, "
                              "MPNetTokenizer, MPNetTokenizerFast)");
  }
}

/// MPNet's special tokens have other names where the files give none.
bool has_mpnet_class(const Files& files) {
  return files.config && files.config->string("tokenizer_class").value_or("").starts_with("MPNet");
}

TokenId token_id(const JsonFile& file, const json& value, const std::string& token) {
  if (value.is_number_integer() && value.get<double>() >= 0 && value.get<double>() <= 0x7FFFFFFF) {
    return value.get<TokenId>();
  }
  throw file.error("the id of token \"" + token + "\" must be an integer of 0 to 2147483647");
}

/// The member `key` of an object, or null when there is none or `object` is no object.
const json& member(const json& object, const char* key) {
  static const json kNull;
  const auto entry = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && entry != object.end() ? *entry : kNull;
}

void read_model(const JsonFile& file, TokenizerSettings& settings) {
  const json& model = member(file.root(), "model");
  const json& type = member(model, "type");
  if (type.is_string() && type != "WordPiece") {
    throw file.error("its model is " + type.get<std::string>() + "; supported is WordPiece");
  }
  for (const auto& [token, id] : member(model, "vocab").items()) {
    settings.vocabulary.add(token, token_id(file, id, token));
  }
  const auto text = [&](const char* key, std::string& out) {
    if (member(model, key).is_string()) out = member(model, key).get<std::string>();
  };
  text("unk_token", settings.wordpiece.unknown_token);
  text("continuing_subword_prefix", settings.wordpiece.continuing_prefix);
  const json& longest = member(model, "max_input_chars_per_word");
  if (longest.is_number_unsigned()) settings.wordpiece.max_chars_per_word = longest.get<size_t>();
}

void check_type(const JsonFile& file, const char* part, const char* supported) {
  const json& type = member(member(file.root(), part), "type");
  if (type.is_string() && type != supported) {
    throw file.error(std::string("its ") + part + " is " + type.get<std::string>() + "; supported is " +
                     supported);
  }
}

void read_vocabulary(const Files& files, TokenizerSettings& settings) {
  if (files.tokenizer) read_model(*files.tokenizer, settings);
  if (settings.vocabulary.size() == 0 && files.vocab_text) {
    settings.vocabulary = Vocabulary::parse_text(*files.vocab_text).take(files.folder + "vocab.txt");
  }
  if (settings.vocabulary.size() == 0) {
    throw Error("no vocabulary: the model has neither " + files.folder +
                "vocab.txt nor a WordPiece model in " + files.folder +
                "tokenizer.json; put the checkpoint's tokenizer files beside its weights");
  }
}

void read_normalizer(const Files& files, TokenizerSettings& settings) {
  NormalizerOptions& options = settings.normalizer;
  std::optional<bool> strip_accents;
  if (files.tokenizer) {
    check_type(*files.tokenizer, "normalizer", "BertNormalizer");
    check_type(*files.tokenizer, "pre_tokenizer", "BertPreTokenizer");
    const json& part = member(files.tokenizer->root(), "normalizer");
    const auto flag = [&](const char* key, bool& out) {
      out = member(part, key).is_boolean() ? part[key] == true : out;
    };
    flag("clean_text", options.clean_text);
    flag("handle_chinese_chars", options.handle_chinese_chars);
    flag("lowercase", options.lowercase);
    if (member(part, "strip_accents").is_boolean()) strip_accents = part["strip_accents"] == true;
  }
  if (files.config) {
    options.lowercase = files.config->boolean("do_lower_case").value_or(options.lowercase);
    options.handle_chinese_chars =
        files.config->boolean("tokenize_chinese_chars").value_or(options.handle_chinese_chars);
    const auto strip = files.config->boolean("strip_accents");
    if (strip) strip_accents = strip;
  }
  options.strip_accents = strip_accents.value_or(options.lowercase);
  if (files.sentence && !options.lowercase) {
    options.lowercase_first = files.sentence->boolean("do_lower_case").value_or(false);
  }
}

/// Tokens by their texts. A later declaration of the same text does not change the first one.
class Declared {
 public:
  explicit Declared(std::vector<AddedToken>& tokens) : tokens_(tokens) {}

  void add(AddedToken token) {
    if (!token.content.empty() && ids_.emplace(token.content, token.id).second)
      tokens_.push_back(std::move(token));
  }
  /// Replaces the description of a token.
  void replace(AddedToken token) {
    std::erase_if(tokens_, [&](const AddedToken& other) { return other.content == token.content; });
    ids_.erase(token.content);
    add(std::move(token));
  }
  TokenId largest_id() const {
    TokenId largest = -1;
    for (const AddedToken& token : tokens_) largest = std::max(largest, token.id);
    return largest;
  }
  std::optional<TokenId> find(const std::u32string& content) const {
    const auto found = ids_.find(content);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::vector<AddedToken>& tokens_;
  std::unordered_map<std::u32string, TokenId> ids_;
};

/// A token as an object ({"content": "[CLS]", "lstrip": false, ...}).
DeclaredToken parse_token(const JsonFile& file, const json& object) {
  if (!member(object, "content").is_string()) throw file.error("an added token has no \"content\"");
  return declared_token({object, file.name() + ": an added token"});
}

AddedToken added_token(const DeclaredToken& token, TokenId id) {
  return {.content = unicode::decode(token.content),
          .id = id,
          .single_word = token.single_word,
          .lstrip = token.lstrip,
          .rstrip = token.rstrip,
          .normalized = token.normalized};
}

void read_added_tokens(const Files& files, const ReadFile& read, const Vocabulary& vocabulary,
                       Declared& tokens) {
  if (files.tokenizer) {
    std::vector<OwnToken> own;
    for (const json& object : member(files.tokenizer->root(), "added_tokens")) {
      const DeclaredToken token = parse_token(*files.tokenizer, object);
      own.push_back({token, token_id(*files.tokenizer, member(object, "id"), token.content)});
      tokens.add(added_token(token, own.back().id));
    }
    for (const DeclaredToken& token : tokens_beside(own, read, files.folder)) {
      std::optional<TokenId> id = tokens.find(unicode::decode(token.content));
      if (!id) id = vocabulary.find(token.content);
      tokens.replace(added_token(token, id.value_or(next_token_id(vocabulary.size(), tokens.largest_id()))));
    }
  } else if (files.config) {
    for (const auto& [id, object] : member(files.config->root(), "added_tokens_decoder").items()) {
      const json number = json::parse(id, nullptr, false);
      const DeclaredToken token = parse_token(*files.config, object);
      tokens.add(added_token(token, token_id(*files.config, number, token.content)));
    }
  }
}

/// The text of a special token ("cls_token"), which files write as a string or as an object.
std::string special_name(const Files& files, const char* key, const std::string& otherwise) {
  for (const auto* file : {&files.config, &files.special_tokens}) {
    if (!*file) continue;
    const json& value = member((*file)->root(), key);
    if (value.is_string()) return value.get<std::string>();
    if (member(value, "content").is_string()) return value["content"].get<std::string>();
  }
  return otherwise;
}

void read_special_tokens(const Files& files, Declared& tokens, TokenizerSettings& settings) {
  const auto special = [&](const char* key, const std::string& otherwise, TokenId* needed) {
    const std::string name = special_name(files, key, otherwise);
    AddedToken token;
    token.content = unicode::decode(name);
    auto id = tokens.find(token.content);
    if (!id) id = settings.vocabulary.find(name);
    if (id) {
      token.id = *id;
      tokens.add(std::move(token));
      if (needed != nullptr) *needed = *id;
    } else if (needed != nullptr) {
      throw Error("the vocabulary has no \"" + name + "\", which is the tokenizer's " + key);
    }
  };
  settings.wordpiece.unknown_token = special_name(files, "unk_token", settings.wordpiece.unknown_token);
  TokenId unknown = 0;
  special("unk_token", settings.wordpiece.unknown_token, &unknown);
  settings.vocabulary.add(settings.wordpiece.unknown_token, unknown);
  const bool is_mpnet = has_mpnet_class(files);
  special("cls_token", is_mpnet ? "<s>" : "[CLS]", &settings.cls);
  special("sep_token", is_mpnet ? "</s>" : "[SEP]", &settings.sep);
  special("pad_token", is_mpnet ? "<pad>" : "[PAD]", nullptr);
  special("mask_token", is_mpnet ? "<mask>" : "[MASK]", nullptr);
}

void read_pairs(const Files& files, TokenizerSettings& settings) {
  if (files.tokenizer) {
    const JsonPlace place = JsonPlace(files.tokenizer->root(), files.tokenizer->name()).at("post_processor");
    if (!place.is_null()) {
      settings.pairs = read_pair_template(place);
      return;
    }
  }
  const bool is_mpnet = has_mpnet_class(files);
  settings.pairs.frame = PairFrame::of_bert(settings.cls, settings.sep, is_mpnet ? 2 : 1, is_mpnet ? 0 : 1);
}

void read_max_length(const Files& files, TokenizerSettings& settings) {
  constexpr size_t kClsAndSep = 2;
  if (files.sentence) settings.max_length = files.sentence->count("max_seq_length", kClsAndSep);
  if (settings.max_length || !files.config) return;
  const auto length = files.config->number("model_max_length");
  if (length && *length < kNoLimit) settings.max_length = files.config->count("model_max_length", kClsAndSep);
}

}  // namespace

TokenizerSettings read_tokenizer_files(const ReadFile& read, const std::string& path) {
  const Files files = open_files(read, path);
  TokenizerSettings settings;
  check_class(files);
  read_vocabulary(files, settings);
  read_normalizer(files, settings);
  Declared tokens(settings.added_tokens);
  read_added_tokens(files, read, settings.vocabulary, tokens);
  read_special_tokens(files, tokens, settings);
  read_pairs(files, settings);
  read_max_length(files, settings);
  return settings;
}

}  // namespace crumb::text
