#include "text/vocab_and_merges.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/files/text.h"
#include "base/json/bounded_json.h"
#include "base/json/json_file.h"
#include "text/pipeline/json_place.h"

namespace crumb::text {
namespace {

constexpr const char *kVocab = "vocab.json", *kMerges = "merges.txt";

enum class Kind : std::uint8_t { kGpt2, kRoberta, kQwen2 };

struct Named {
  std::string_view name;
  Kind kind;
};

constexpr std::array<Named, 6> kClasses = {{{"GPT2Tokenizer", Kind::kGpt2},
                                            {"CodeGenTokenizer", Kind::kGpt2},
                                            {"RobertaTokenizer", Kind::kRoberta},
                                            {"BartTokenizer", Kind::kRoberta},
                                            {"LongformerTokenizer", Kind::kRoberta},
                                            {"Qwen2Tokenizer", Kind::kQwen2}}};
constexpr std::array<Named, 12> kModelTypes = {{{"gpt2", Kind::kGpt2},
                                                {"gpt_neo", Kind::kGpt2},
                                                {"gptj", Kind::kGpt2},
                                                {"codegen", Kind::kGpt2},
                                                {"opt", Kind::kGpt2},
                                                {"phi", Kind::kGpt2},
                                                {"starcoder2", Kind::kGpt2},
                                                {"roberta", Kind::kRoberta},
                                                {"qwen2", Kind::kQwen2},
                                                {"qwen2_moe", Kind::kQwen2},
                                                {"qwen3", Kind::kQwen2},
                                                {"qwen3_moe", Kind::kQwen2}}};

/// Qwen 2's words, as transformers has them.
constexpr const char* kQwenWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

std::optional<JsonFile> open(const ReadFile& read, const std::string& name) {
  const auto text = read(name);
  return text ? std::optional<JsonFile>(std::in_place, name, *text) : std::nullopt;
}

Kind kind_of(const ReadFile& read, const std::string& folder, const std::optional<JsonFile>& config) {
  const std::string subject = folder + kVocab + " and " + kMerges + " without a tokenizer.json: ";
  std::string name = config ? config->string("tokenizer_class").value_or("") : "";
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  const auto find = [](const auto& all, std::string_view wanted) {
    const auto* const found = std::ranges::find(all, wanted, &Named::name);
    return found == all.end() ? std::nullopt : std::optional(found->kind);
  };
  if (!name.empty()) {
    if (const auto kind = find(kClasses, name)) return *kind;
    throw config->error("tokenizer_class is " + name + "; " + subject +
                        "supported are GPT2Tokenizer, CodeGenTokenizer, RobertaTokenizer, BartTokenizer, "
                        "LongformerTokenizer and Qwen2Tokenizer");
  }
  const std::optional<JsonFile> model = open(read, folder + "config.json");
  const std::string type = model ? model->string("model_type").value_or("") : "";
  if (const auto kind = find(kModelTypes, type)) return *kind;
  throw Error(subject + "nothing says how words are split; expected a tokenizer_class in " + folder +
              "tokenizer_config.json, or in " + folder +
              "config.json a model_type whose tokenizer is GPT-2's, "
              "RoBERTa's or Qwen 2's" +
              (type.empty() ? "" : ", found " + quote_text(type)));
}

TokenTable read_vocabulary(const std::string& name, const std::string& text) {
  constexpr JsonLimits kLarge{.max_bytes = std::uint64_t{160} << 20};
  const nlohmann::json root = parse_bounded_json(std::as_bytes(std::span(text)), kLarge).take(name);
  if (!root.is_object()) throw Error(name + ": expected an object of tokens and their ids");
  TokenTable tokens;
  for (const auto& [token, id] : root.items())
    tokens.add(token, JsonPlace(id, name + ": " + quote_text(token)).id());
  return tokens;
}

nlohmann::json steps_of(Kind kind, bool adds_space) {
  using Json = nlohmann::json;
  Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", adds_space}, {"trim_offsets", true}};
  Json steps = {{"normalizer", nullptr}, {"pre_tokenizer", bytes}, {"decoder", {{"type", "ByteLevel"}}}};
  if (kind != Kind::kQwen2) return steps;
  bytes["use_regex"] = false;
  const Json words = {
      {"type", "Split"}, {"pattern", {{"Regex", kQwenWords}}}, {"behavior", "Isolated"}, {"invert", false}};
  steps["normalizer"] = {{"type", "NFC"}};
  steps["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {words, bytes}}};
  return steps;
}

UsualTokens usual_of(Kind kind) {
  const std::string end = "<|endoftext|>";
  switch (kind) {
    case Kind::kGpt2: return {{"bos_token", end}, {"eos_token", end}, {"unk_token", end}};
    case Kind::kQwen2: return {{"eos_token", end}, {"unk_token", end}, {"pad_token", end}};
    case Kind::kRoberta: break;
  }
  return {{"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},  {"sep_token", "</s>"},
          {"pad_token", "<pad>"}, {"cls_token", "<s>"},  {"mask_token", "<mask>"}};
}

/// A special token's text: of the files, else the class's. Nothing where a file says null.
std::optional<std::string> special(const std::array<const std::optional<JsonFile>*, 2>& files,
                                   const char* key, const UsualTokens& usual) {
  for (const std::optional<JsonFile>* file : files) {
    const auto found = *file ? (*file)->root().find(key) : nlohmann::json::const_iterator();
    if (!*file || found == (*file)->root().end()) continue;
    const JsonPlace place(*found, (*file)->name() + ": " + key);
    if (place.is_null()) return std::nullopt;
    return place.value().is_object() ? place.string("content") : (*file)->string(key);
  }
  const auto found = usual.find(key);
  return found == usual.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

bool VocabAndMerges::is_there(const ReadFile& read, const std::string& folder) {
  return read(folder + kVocab) && read(folder + kMerges);
}

VocabAndMerges VocabAndMerges::read(const ReadFile& read, const std::string& folder) {
  const std::optional<JsonFile> config = open(read, folder + "tokenizer_config.json");
  std::optional<JsonFile> map;
  if (!config || !config->has("added_tokens_decoder")) map = open(read, folder + "special_tokens_map.json");
  const Kind kind = kind_of(read, folder, config);
  VocabAndMerges made;
  made.tokens = read_vocabulary(folder + kVocab, read(folder + kVocab).value());
  made.merges = parse_merges(read(folder + kMerges).value()).take(folder + kMerges);
  made.steps = steps_of(kind, config && config->boolean("add_prefix_space").value_or(false));

  made.usual = usual_of(kind);
  made.has_plain_special = kind == Kind::kQwen2;
  const auto named = [&](const char* key) { return special({&map, &config}, key, made.usual); };
  made.bos = named("bos_token");
  made.eos = named("eos_token");
  if (kind != Kind::kRoberta) return made;
  const auto before = named("cls_token"), after = named("sep_token");
  if (!before || !after)
    throw Error(folder +
                "tokenizer_config.json: cls_token and sep_token stand around every text, and one of "
                "them is null");
  made.around = {*before, *after};
  return made;
}

Result<std::vector<std::pair<std::string, std::string>>> parse_merges(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version")) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
      return Failure{"line " + std::to_string(number) + ": expected two tokens parted by a space, found " +
                     quote_text(line.substr(0, 100))};
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

}  // namespace crumb::text
