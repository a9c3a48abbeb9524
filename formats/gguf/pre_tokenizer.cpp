#include "formats/gguf/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <string>

namespace crumb {
namespace {

using StepJson = nlohmann::ordered_json;

constexpr std::string_view kThreeDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kOneDigit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array<PreTokenizer, 9> kPreTokenizers = {{
    {"gpt-2", ""},
    {"olmo", ""},
    {"smollm", "", true},
    {"llama-bpe", kThreeDigits, false, false, true, true},
    {"llama3", kThreeDigits, false, false, true, true},
    {"llama-v3", kThreeDigits, false, false, true, true},
    {"smaug-bpe", kThreeDigits},
    {"dbrx", kThreeDigits},
    {"qwen2", kOneDigit, false, true},
}};

StepJson split_by(StepJson pattern, const char* behavior) {
  return {{"type", "Split"}, {"pattern", std::move(pattern)}, {"behavior", behavior}, {"invert", false}};
}

}  // namespace

std::span<const PreTokenizer> pre_tokenizers() { return kPreTokenizers; }

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  const auto* const found = std::ranges::find(kPreTokenizers, name, &PreTokenizer::name);
  return found == kPreTokenizers.end() ? nullptr : found;
}

StepJson words_of(const PreTokenizer& pre) {
  StepJson words = byte_level_step(pre.split.empty());
  if (pre.digits)
    return sequence_of("pretokenizers",
                       StepJson::array({{{"type", "Digits"}, {"individual_digits", true}}, words}));
  if (pre.split.empty()) return words;
  return sequence_of("pretokenizers",
                     StepJson::array({split_by({{"Regex", std::string(pre.split)}}, "Isolated"), words}));
}

StepJson normalizer_of(const PreTokenizer& pre) {
  return pre.nfc ? StepJson{{"type", "NFC"}} : StepJson(nullptr);
}

StepJson byte_level_step(bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", regex}};
}

StepJson sequence_of(const char* member, StepJson parts) {
  return {{"type", "Sequence"}, {member, std::move(parts)}};
}

}  // namespace crumb
