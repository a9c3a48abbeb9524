#include "text/text_tokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "base/json/json_file.h"
#include "text/configured_frame.h"
#include "text/declared_tokens.h"
#include "text/pipeline/decoders.h"
#include "text/pipeline/steps.h"
#include "text/sentencepiece/fairseq.h"
#include "text/sentencepiece/model_file.h"
#include "text/stream_decoder.h"
#include "text/subword/bpe.h"
#include "text/subword/unigram.h"
#include "text/subword/words.h"
#include "text/unicode.h"
#include "text/vocab_and_merges.h"

namespace crumb::text {

using SubwordModel = std::variant<Bpe, Unigram, Words>;

struct TextTokenizer::Parts {
  SubwordModel model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Frame frame;
  PairTemplate pairs;
  Decoder decoder;
  AddedTokens raw, normalized;
  std::map<TokenId, std::string> added;
  std::unordered_map<std::string, TokenId> added_ids;  // of two with the same text, the first
  std::set<std::string> special;  // texts, as `tokenizers` tells special tokens from others
  std::optional<TokenId> bos, eos;

  /// Adds a token of added_tokens. Where it exists already, its description is replaced if `replaces` says
  /// so.
  void add_token(const DeclaredToken& declared, TokenId id, bool replaces, std::vector<AddedToken>& tokens) {
    if (declared.content.empty()) return;
    if (declared.special) special.insert(declared.content);
    added[id] = declared.content;
    added_ids.emplace(declared.content, id);
    if (replaces) std::erase_if(tokens, [id](const AddedToken& other) { return other.id == id; });
    tokens.push_back({.content = unicode::decode(declared.content),
                      .id = id,
                      .single_word = declared.single_word,
                      .lstrip = declared.lstrip,
                      .rstrip = declared.rstrip,
                      .normalized = declared.normalized});
  }

  /// Adds tokens that other files declare: known ones get their description, others the next ids.
  void add_tokens(const std::vector<DeclaredToken>& declared, std::vector<AddedToken>& tokens) {
    for (const DeclaredToken& token : declared) {
      const TokenId largest = added.empty() ? -1 : added.rbegin()->first;
      const TokenId id = find(token.content).value_or(next_token_id(this->tokens().size(), largest));
      add_token(token, id, true, tokens);
    }
  }

  const TokenTable& tokens() const {
    return std::visit([](const auto& m) -> const TokenTable& { return m.tokens(); }, model);
  }
  std::optional<TokenId> find(const std::string& token) const {
    const auto found = added_ids.find(token);
    return found != added_ids.end() ? std::optional(found->second) : tokens().find(token);
  }
};

namespace {

/// The long lists of a tokenizer.json, which are not kept as JSON.
struct ModelLists {
  TokenTable tokens;                                   // BPE's vocabulary, and WordPiece's
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

SubwordModel make_model(const JsonPlace& place, ModelLists lists) {
  const std::string type = place.optional_string("type").value_or("BPE");
  const auto take = [&](auto result) {
    if (!result.ok()) throw place.error(result.failure().message);
    return std::move(result.value());
  };
  if (type == "WordPiece") {
    WordPiece::Options options;
    options.unknown_token = place.optional_string("unk_token").value_or(options.unknown_token);
    options.continuing_prefix =
        place.optional_string("continuing_subword_prefix").value_or(options.continuing_prefix);
    if (!place.at("max_input_chars_per_word").is_null())
      options.max_chars_per_word = place.count("max_input_chars_per_word");
    return take(Words::make(std::move(lists.tokens), std::move(options)));
  }
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

/// Names of SentencePiece models, in the order of preference.
constexpr std::array<const char*, 5> kModelFiles = {
    "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "sentencepiece.model", "spm.model"};

std::string folder_of(const std::string& path) {
  return path.empty() || path.ends_with('/') ? path : path + "/";
}

constexpr const char* kMarkedSpace = "\xE2\x96\x81";

/// Pieces that are never found in a text (special ones, bytes) are in the vocabulary all the same.
SubwordModel model_of_sentencepiece(const SentencePieceModel& model, const std::string& name) {
  using Type = SentencePieceModel::Type;
  if (model.kind == SentencePieceModel::Kind::kUnigram) {
    std::vector<std::pair<std::string, double>> scored;
    for (const SentencePieceModel::Piece& piece : model.pieces) {
      const bool found = piece.type == Type::kNormal || piece.type == Type::kUserDefined;
      scored.emplace_back(piece.text, found ? static_cast<double>(piece.score) : -INFINITY);
    }
    return Unigram::make(scored, {.unknown = static_cast<std::size_t>(model.unknown),
                                  .byte_fallback = model.byte_fallback,
                                  .single_precision = true})
        .take(name);
  }
  TokenTable table;
  for (std::size_t i = 0; i < model.pieces.size(); ++i)
    table.add(model.pieces[i].text, static_cast<TokenId>(i));
  Bpe::Options options;
  options.unknown = model.pieces[static_cast<std::size_t>(model.unknown)].text;
  options.fuse_unknown = true;
  options.byte_fallback = model.byte_fallback;
  return Bpe::make(std::move(table), model.merges(), std::move(options)).take(name);
}

Decoder decoder_of_sentencepiece(const SentencePieceModel& model) {
  using Json = nlohmann::json;
  Json steps = {{{"type", "Replace"}, {"pattern", {{"String", kMarkedSpace}}}, {"content", " "}}};
  if (model.byte_fallback) steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (model.adds_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  const Json decoder = {{"type", "Sequence"}, {"decoders", steps}};
  return read_decoder({decoder, "decoder"});
}

/// The text of a special token, which files write as a string or as an object.
std::optional<std::string> special_text(const JsonPlace& config, const char* key) {
  const JsonPlace place = config.at(key);
  if (place.is_null()) return std::nullopt;
  return place.value().is_object() ? place.string("content") : config.string(key);
}

}  // namespace

bool has_text_tokenizer(const ReadFile& read, const std::string& path) {
  const std::string folder = folder_of(path);
  return read(folder + "tokenizer.json") || VocabAndMerges::is_there(read, folder) ||
         std::ranges::any_of(kModelFiles, [&](const char* name) { return read(folder + name).has_value(); });
}

TextTokenizer TextTokenizer::load(const ReadFile& read, const std::string& path) {
  const std::string folder = folder_of(path);
  std::shared_ptr<Parts> parts;
  std::vector<AddedToken> tokens;
  bool has_frame = false;  // of its own, which tokenizer_config.json does not change
  if (const auto text = read(folder + "tokenizer.json")) {
    parts = parts_of_json(read, folder, *text, tokens);
    has_frame = true;
  } else if (VocabAndMerges::is_there(read, folder)) {
    parts = parts_of_vocab(read, folder, tokens);
    has_frame = !parts->frame.before.empty();
  } else {
    for (const char* name : kModelFiles) {
      const auto file = parts ? std::nullopt : read(folder + name);
      if (file) parts = parts_of_sentencepiece(read, folder, name, *file, tokens);
    }
    has_frame = parts && !parts->frame.before.empty();
    if (!parts)
      throw Error("there is no " + folder +
                  "tokenizer.json, no vocab.json with a merges.txt, and no SentencePiece model");
  }
  std::vector<AddedToken> raw, normalized;
  for (AddedToken& token : tokens) {
    if (token.normalized) token.content = unicode::decode(parts->normalizer(unicode::encode(token.content)));
    (token.normalized ? normalized : raw).push_back(std::move(token));
  }
  parts->raw = AddedTokens(std::move(raw));
  parts->normalized = AddedTokens(std::move(normalized));
  if (const auto config_text = read(folder + "tokenizer_config.json")) {
    const JsonFile file(folder + "tokenizer_config.json", *config_text);
    const JsonPlace config(file.root(), file.name());
    const auto find = [&](const char* key, const std::optional<TokenId>& otherwise) {
      const auto token = special_text(config, key);
      return token ? parts->find(*token) : otherwise;
    };
    parts->bos = find("bos_token", parts->bos);
    parts->eos = find("eos_token", parts->eos);
    if (configure_frame(config, has_frame, parts->bos, parts->eos, parts->frame))
      parts->pairs = {.frame = PairFrame::around_each(parts->frame.before, parts->frame.after), .why = ""};
  }
  TextTokenizer tokenizer;
  tokenizer.parts_ = std::move(parts);
  return tokenizer;
}

std::shared_ptr<TextTokenizer::Parts> TextTokenizer::parts_of_json(const ReadFile& read,
                                                                   const std::string& folder,
                                                                   const std::string& text,
                                                                   std::vector<AddedToken>& tokens) {
  const std::string name = folder + "tokenizer.json";
  ModelLists lists;
  constexpr std::array<std::string_view, 2> kLong = {"model.vocab", "model.merges"};
  const auto sink = [&](std::string_view at, std::string_view key, const nlohmann::json& value) {
    lists.take(name, at, key, value);
  };
  const nlohmann::json root =
      parse_bounded_json_members(std::as_bytes(std::span(text)), {}, kLong, sink).take(name);
  const JsonPlace place(root, name + ": tokenizer");
  auto parts = std::make_shared<Parts>(Parts{.model = make_model(place.at("model"), std::move(lists)),
                                             .normalizer = read_normalizer(place.at("normalizer")),
                                             .pre_tokenizer = read_pre_tokenizer(place.at("pre_tokenizer")),
                                             .frame = read_frame(place.at("post_processor")),
                                             .pairs = read_pair_template(place.at("post_processor")),
                                             .decoder = read_decoder(place.at("decoder"))});
  std::vector<OwnToken> own;
  if (!place.at("added_tokens").is_null()) {
    for (const JsonPlace& object : place.list("added_tokens")) {
      own.push_back({declared_token(object), object.at("id").id()});
      parts->add_token(own.back().token, own.back().id, false, tokens);
    }
  }
  parts->add_tokens(tokens_beside(own, read, folder), tokens);
  return parts;
}

std::shared_ptr<TextTokenizer::Parts> TextTokenizer::parts_of_vocab(const ReadFile& read,
                                                                    const std::string& folder,
                                                                    std::vector<AddedToken>& tokens) {
  VocabAndMerges files = VocabAndMerges::read(read, folder);
  const JsonPlace steps(files.steps, "the steps of its tokenizer class");
  auto parts = std::make_shared<Parts>(
      Parts{.model = Bpe::make(std::move(files.tokens), files.merges, {}).take(folder + "merges.txt"),
            .normalizer = read_normalizer(steps.at("normalizer")),
            .pre_tokenizer = read_pre_tokenizer(steps.at("pre_tokenizer")),
            .decoder = read_decoder(steps.at("decoder"))});
  std::vector<DeclaredToken> declared = tokens_beside({}, read, folder, files.usual);
  for (DeclaredToken& token : declared) {
    if (files.has_plain_special && token.special)
      token = {.content = token.content, .normalized = false, .special = true};
  }
  parts->add_tokens(declared, tokens);
  const auto find = [&](const std::optional<std::string>& token) {
    return token ? parts->find(*token) : std::nullopt;
  };
  parts->bos = find(files.bos);
  parts->eos = find(files.eos);
  if (!files.around) return parts;
  const auto before = parts->find(files.around->first), after = parts->find(files.around->second);
  if (!before || !after) throw Error(folder + "tokenizer_config.json: cls_token or sep_token is empty");
  parts->frame = {{*before}, {*after}};
  parts->pairs.frame = PairFrame::of_bert(*before, *after, 2, 0);
  return parts;
}

std::shared_ptr<TextTokenizer::Parts> TextTokenizer::parts_of_sentencepiece(const ReadFile& read,
                                                                            const std::string& folder,
                                                                            const std::string& file,
                                                                            const std::string& bytes,
                                                                            std::vector<AddedToken>& tokens) {
  const std::string name = folder + file;
  auto model = std::make_shared<SentencePieceModel>(SentencePieceModel::parse(bytes).take(name));
  const std::optional<FairseqNumbers> fairseq = fairseq_numbers(read, folder);
  if (fairseq) {
    if (const Status done = number_as_fairseq(*model, *fairseq); !done.ok())
      throw Error(name + ": " + done.failure().message);
  }
  using Type = SentencePieceModel::Type;
  auto parts = std::make_shared<Parts>(Parts{.model = model_of_sentencepiece(*model, name)});
  parts->decoder = decoder_of_sentencepiece(*model);
  for (std::size_t i = 0; i < model->pieces.size(); ++i) {
    const SentencePieceModel::Piece& piece = model->pieces[i];
    const bool special = piece.type == Type::kControl || piece.type == Type::kUnknown;
    if (!special && piece.type != Type::kUserDefined) continue;
    const auto id = static_cast<TokenId>(i);
    parts->added[id] = piece.text;
    if (special) parts->special.insert(piece.text);
    tokens.push_back(
        {.content = unicode::decode(piece.text), .id = id, .lstrip = fairseq && piece.text == "<mask>"});
  }
  const auto in_range = [&](TokenId id) {
    return id >= 0 && static_cast<std::size_t>(id) < model->pieces.size() ? std::optional(id) : std::nullopt;
  };
  parts->bos = in_range(model->bos);
  parts->eos = in_range(model->eos);
  if (fairseq) parts->frame = {{model->bos}, {model->eos}};
  // Tokens that were added behind the model's own.
  if (const auto text = read(folder + "added_tokens.json")) {
    const JsonFile added(folder + "added_tokens.json", *text);
    for (const auto& [content, id] : added.root().items()) {
      parts->add_token({.content = content}, JsonPlace(id, added.name() + ": " + content).id(), false,
                       tokens);
    }
  }
  if (const auto text = read(folder + "tokenizer_config.json")) {
    const JsonFile config(folder + "tokenizer_config.json", *text);
    const JsonPlace decoder = JsonPlace(config.root(), config.name()).at("added_tokens_decoder");
    const nlohmann::json none = nlohmann::json::object();
    const nlohmann::json& listed = decoder.is_null() ? none : decoder.value();
    if (!listed.is_object()) throw decoder.error("expected a JSON object");
    for (const auto& [id, object] : listed.items()) {
      TokenId number = -1;
      std::from_chars(id.data(), id.data() + id.size(), number);
      if (number < 0) throw decoder.error("the key " + quote_text(id) + " is no id");
      parts->add_token(declared_token({object, config.name() + ": added_tokens_decoder." + id}), number, true,
                       tokens);
    }
  }
  parts->normalizer = [model](const std::string& text) { return model->normalize(text); };
  parts->pre_tokenizer = [model, everywhere = fairseq.has_value()](std::vector<Part> words) {
    for (Part& word : words)
      if ((word.first || (everywhere && !word.text.empty())) && model->adds_prefix)
        word.text.insert(0, model->marks_spaces ? kMarkedSpace : " ");
    return words;
  };
  return parts;
}

std::optional<TokenId> TextTokenizer::first_token() const {
  const std::vector<TokenId>& before = parts_->frame.before;
  return before.empty() ? std::nullopt : std::optional(before.front());
}

std::vector<TokenId> TextTokenizer::encode(std::string_view text, bool add_special) const {
  return encode(text, add_special, std::nullopt);
}

std::vector<TokenId> TextTokenizer::encode_within(std::string_view text, std::size_t most) const {
  return encode(text, true, most - tokens_around());
}

std::size_t TextTokenizer::tokens_around() const {
  return parts_->frame.before.size() + parts_->frame.after.size();
}

std::vector<TokenId> TextTokenizer::encode(std::string_view text, bool add_special,
                                           std::optional<std::size_t> most) const {
  const Parts& parts = *parts_;
  std::vector<TokenId> ids;
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
  if (most) ids.resize(std::min(ids.size(), *most));
  if (add_special) {
    ids.insert(ids.begin(), parts.frame.before.begin(), parts.frame.before.end());
    ids.insert(ids.end(), parts.frame.after.begin(), parts.frame.after.end());
  }
  check_ids(ids);
  return ids;
}

void TextTokenizer::check_ids(const std::vector<TokenId>& ids) const {
  const auto beyond =
      std::ranges::find_if(ids, [this](TokenId id) { return end_ && static_cast<std::size_t>(id) >= *end_; });
  if (beyond != ids.end())
    throw Error("the text has the token " + quote_text(*piece(*beyond)) + ", id " + std::to_string(*beyond) +
                ", of which the model has no row: its ids end at " + std::to_string(*end_ - 1));
}

const PairFrame& TextTokenizer::pair_frame() const {
  const PairTemplate& pairs = parts_->pairs;
  if (!pairs.frame) throw Error("the tokenizer takes no pairs of texts: " + pairs.why);
  return *pairs.frame;
}

std::size_t TextTokenizer::tokens_around_pairs() const { return pair_frame().tokens_around(); }

PairTokens TextTokenizer::encode_pair_within(std::string_view first, std::string_view second,
                                             std::size_t most) const {
  PairTokens row =
      pair_frame().join(encode(first, false, std::nullopt), encode(second, false, std::nullopt), most);
  check_ids(row.ids);
  return row;
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

TokenId TextTokenizer::largest_own_id() const { return parts_->tokens().largest_id(); }

TokenId TextTokenizer::largest_id() const {
  const TokenId added = parts_->added.empty() ? -1 : parts_->added.rbegin()->first;
  return std::max(added, parts_->tokens().largest_id());
}

}  // namespace crumb::text
