#include "formats/gguf/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <string>

#include "formats/gguf/word_expressions.h"

namespace crumb {
namespace {

using StepJson = nlohmann::ordered_json;
using enum WordStep::Kind;

template <std::size_t kCount>
using Steps = std::array<WordStep, kCount>;

constexpr Steps<2> split_once(std::string_view regex) { return {{{kSplit, regex}, {kBytes}}}; }

constexpr Steps<1> kAsGpt2 = {{{kGpt2}}};
constexpr Steps<2> kAsStarcoder = {{{kEachDigit}, {kGpt2}}};
constexpr Steps<2> kAsLlama3 = split_once(kThreeDigits);
constexpr Steps<2> kAsQwen2 = split_once(kOneDigit);
constexpr Steps<2> kAsQwen35 = split_once(kOneDigitMarks);
constexpr Steps<2> kAsTekken = split_once(kCasedOneDigit);
constexpr Steps<2> kAsGpt4o = split_once(kCasedThreeDigits);
constexpr Steps<2> kAsKimi = split_once(kCasedWithoutHan);
constexpr Steps<2> kAsBloom = split_once(kBloom);
constexpr Steps<2> kAsJais2 = split_once(kSpacesByPowers);
constexpr Steps<2> kAsBailing = split_once(kBailing);
constexpr Steps<2> kAsSeedCoder = split_once(kLinesApart);
constexpr Steps<2> kAsExaoneMoe = split_once(kSpacesInside);
constexpr Steps<2> kAsUfakzeka = split_once(kNoContractions);
constexpr Steps<3> kAsViking = {{{kSplit, kBloom}, {kEachDigit}, {kBytes}}};
constexpr Steps<3> kAsTinyAya = {{{kSplit, kThreesToBoundary}, {kSplit, kCasedThreeDigits}, {kBytes}}};
constexpr Steps<3> kAsSuperBpe = {{{kSplit, kNumbers}, {kSplit, kBeforeThrees}, {kBytes}}};
constexpr Steps<3> kAsLaguna = {{{kSplit, kParagraphs}, {kSplit, kOneDigit}, {kBytes}}};
constexpr Steps<3> kAsMiniCpm5 = {{{kSplit, kUpToThreeDigits}, {kSplit, kAnyDigits}, {kBytes}}};
constexpr Steps<3> kAsYoutu = {{{kSplit, kHangulMarksAndHan}, {kSplit, kCasedContractions}, {kBytes}}};
constexpr Steps<4> kAsFalcon = {{{kPunctuationRuns}, {kGpt2}, {kDigitRuns}, {kSplit, kThreeAsciiDigits}}};
constexpr Steps<4> kAsDeepSeek3 = {
    {{kSplit, kUpToThreeDigits}, {kSplit, kChineseAndKana}, {kSplit, kMarksAndWords}, {kBytes}}};
constexpr Steps<4> kAsAfmoe = {
    {{kSplit, kThreesFromBehind}, {kSplit, kAsianScripts}, {kSplit, kMarksAndWords}, {kBytes}}};
constexpr Steps<5> kAsSpark = {{{kSplit, kUpToThreeDigits},
                                {kSplit, kChineseAndKana},
                                {kSplit, kMarksWordsAndLines},
                                {kEachDigit},
                                {kBytes}}};
constexpr Steps<5> kAsDefault = {
    {{kSplit, kMarksAndSymbols}, {kSplit, kGpt2Words}, {kDigitRuns}, {kSplit, kThreeAsciiDigits}, {kBytes}}};
constexpr Steps<6> kAsDeepSeekCoder = {{{kSplit, kLineEnd},
                                        {kSplit, R"(\s?\p{L}+)"},
                                        {kSplit, R"(\s?\p{P}+)"},
                                        {kSplit, kChinese},
                                        {kEachDigit},
                                        {kBytes}}};
constexpr Steps<6> kAsChameleon = {{{kSplit, kSentinels},
                                    {kSplit, kPictures},
                                    {kSplit, kIndents},
                                    {kEachDigit},
                                    {kEachPunctuation},
                                    {kGpt2}}};
constexpr Steps<7> kAsDeepSeek = {{{kSplit, kLineEnd},
                                   {kSplit, kCasedScripts},
                                   {kSplit, kAsciiAndWideMarks},
                                   {kSplit, R"(\s+$)"},
                                   {kSplit, kChinese},
                                   {kEachDigit},
                                   {kBytes}}};

constexpr auto kPreTokenizers = std::to_array<PreTokenizer>({
    {"gpt-2", kAsGpt2},
    {"phi-2", kAsGpt2},
    {"olmo", kAsGpt2},
    {"mpt", kAsGpt2, true},
    {"modern-bert", kAsGpt2, true},
    {"jais", kAsGpt2},
    {"trillion", kAsGpt2},
    {"granite-docling", kAsGpt2},
    {"gigachat", kAsGpt2},
    {"exaone4", kAsGpt2},
    {"a.x-4.0", kAsGpt2},
    {"mellum", kAsGpt2},
    {"jina-es", kAsGpt2},
    {"jina-de", kAsGpt2},
    {"jina-v1-en", kAsGpt2},
    {"jina-v2-es", kAsGpt2},
    {"jina-v2-de", kAsGpt2},
    {"jina-v2-code", kAsGpt2},
    {"roberta-bpe", kAsGpt2},
    {"smollm", kAsStarcoder},
    {"starcoder", kAsStarcoder},
    {"refact", kAsStarcoder},
    {"command-r", kAsStarcoder, true},
    {"codeshell", kAsStarcoder},
    {"exaone", kAsStarcoder},
    {"minerva-7b", kAsStarcoder},
    {"mellum2", kAsStarcoder},
    {"llama-bpe", kAsLlama3, false, true, true},
    {"llama3", kAsLlama3, false, true, true},
    {"llama-v3", kAsLlama3, false, true, true},
    {"falcon3", kAsLlama3, false, true, true},
    {"falcon-h1", kAsLlama3, false, true, true},
    {"pixtral", kAsLlama3, false, true, true},
    {"midm-2.0", kAsLlama3, false, true, true},
    {"lfm2", kAsLlama3, false, true, true},
    {"jina-v5-nano", kAsLlama3, false, true, true},
    {"glm4", kAsLlama3, false, true},
    {"glm5", kAsLlama3, false, true},
    {"smaug-bpe", kAsLlama3},
    {"dbrx", kAsLlama3},
    {"chatglm-bpe", kAsLlama3},
    {"qwen2", kAsQwen2, true},
    {"deepseek-r1-qwen", kAsQwen2, true},
    {"f2llmv2", kAsQwen2, true},
    {"hunyuan", kAsQwen2},
    {"solar-open", kAsQwen2},
    {"grok-2", kAsQwen2},
    {"kormo", kAsQwen2},
    {"megrez", kAsQwen2},
    {"stablelm2", kAsQwen2},
    {"qwen35", kAsQwen35},
    {"tekken", kAsTekken, false, true, true},
    {"gpt-4o", kAsGpt4o},
    {"llama4", kAsGpt4o},
    {"kanana2", kAsGpt4o},
    {"talkie", kAsGpt4o},
    {"minimax-m2", kAsGpt4o},
    {"granite-embed-multi-97m", kAsGpt4o, false, true},
    {"kimi-k2", kAsKimi},
    {"tiny_aya", kAsTinyAya},
    {"cohere2moe", kAsTinyAya},
    {"deepseek-llm", kAsDeepSeek},
    {"deepseek-coder", kAsDeepSeekCoder},
    {"deepseek-v3", kAsDeepSeek3},
    {"hunyuan-dense", kAsDeepSeek3},
    {"joyai-llm", kAsDeepSeek3},
    {"hy_v4", kAsDeepSeek3},
    {"spark2_5", kAsSpark},
    {"afmoe", kAsAfmoe},
    {"youtu", kAsYoutu, false, true},
    {"falcon", kAsFalcon},
    {"default", kAsDefault},
    {"bloom", kAsBloom},
    {"poro-chat", kAsBloom},
    {"gpt3-finnish", kAsBloom},
    {"viking", kAsViking},
    {"jais-2", kAsJais2},
    {"bailingmoe", kAsBailing},
    {"bailingmoe2", kAsBailing},
    {"llada-moe", kAsBailing},
    {"seed-coder", kAsSeedCoder},
    {"exaone-moe", kAsExaoneMoe},
    {"ufakzeka", kAsUfakzeka},
    {"superbpe", kAsSuperBpe},
    {"laguna", kAsLaguna},
    {"minicpm5", kAsMiniCpm5, false, true},
    {"chameleon", kAsChameleon, false, false, true},
});

StepJson step_json(const WordStep& step) {
  switch (step.kind) {
    case kSplit:
      return {{"type", "Split"},
              {"pattern", {{"Regex", std::string(step.regex)}}},
              {"behavior", "Isolated"},
              {"invert", false}};
    case kEachDigit: return {{"type", "Digits"}, {"individual_digits", true}};
    case kDigitRuns: return {{"type", "Digits"}, {"individual_digits", false}};
    case kEachPunctuation: return {{"type", "Punctuation"}, {"behavior", "Isolated"}};
    case kPunctuationRuns: return {{"type", "Punctuation"}, {"behavior", "Contiguous"}};
    case kGpt2: return byte_level_step(true);
    case kBytes: return byte_level_step(false);
  }
  return nullptr;
}

}  // namespace

std::span<const PreTokenizer> pre_tokenizers() { return kPreTokenizers; }

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  const auto* const found = std::ranges::find(kPreTokenizers, name, &PreTokenizer::name);
  return found == kPreTokenizers.end() ? nullptr : found;
}

std::string_view why_not_read(std::string_view name) {
  constexpr std::array<std::string_view, 4> kText = {"gemma4", "granite-embed-multi-311m", "sarvam-moe",
                                                     "whitespace"};
  if (std::ranges::find(kText, name) == kText.end()) return "";
  return "its tokens are text, where those of the kind 'gpt2' are bytes written as characters";
}

StepJson words_of(const PreTokenizer& pre) {
  StepJson steps = StepJson::array();
  for (const WordStep& step : pre.steps) steps.push_back(step_json(step));
  return steps.size() == 1 ? steps[0] : sequence_of("pretokenizers", std::move(steps));
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
