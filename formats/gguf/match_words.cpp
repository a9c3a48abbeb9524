// Which way of splitting text a tokenizer.json describes, however it spells that.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "formats/gguf/pre_tokenizer.h"

namespace crumb {
namespace {

using WordsJson = nlohmann::json;

void put_default(WordsJson& step, const char* member, WordsJson value) {
  if (!step.contains(member)) step[member] = std::move(value);
}

/// Line ends and tabs as escapes: some files have the characters themselves.
std::string with_escapes(const std::string& regex) {
  std::string made;
  for (const char c : regex) {
    if (c == '\n') {
      made += "\\n";
    } else if (c == '\r') {
      made += "\\r";
    } else if (c == '\t') {
      made += "\\t";
    } else {
      made += c;
    }
  }
  return made;
}

/// Whether nothing lies between two matches: letters, numbers, spaces and all else are words.
bool covers_texts(const std::string& regex) {
  return regex.ends_with(R"(|\s+(?!\S)|\s+)") && regex.find(R"( ?[^\s\p{L}\p{N}]+)") != std::string::npos;
}

/// A step with what is left out, and without what changes no token: offsets are for highlighting.
WordsJson spelled_out(WordsJson step) {
  if (!step.is_object() || !step.contains("type")) return step;
  step.erase("trim_offsets");
  const WordsJson type = step["type"];
  if (type == "ByteLevel") {
    put_default(step, "add_prefix_space", true);
    put_default(step, "use_regex", true);
  } else if (type == "Digits") {
    put_default(step, "individual_digits", false);
  } else if (type == "Punctuation") {
    put_default(step, "behavior", "Isolated");
  } else if (type == "Split") {
    put_default(step, "invert", false);
    WordsJson& pattern = step["pattern"];
    if (pattern.is_object() && pattern.contains("Regex") && pattern["Regex"].is_string()) {
      const std::string regex = with_escapes(pattern["Regex"].get<std::string>());
      pattern["Regex"] = regex;
      const bool keeps_matches = step["behavior"] == "Removed" && step["invert"] == true;
      if (keeps_matches && covers_texts(regex)) step.update({{"behavior", "Isolated"}, {"invert", false}});
    }
  }
  return step;
}

/// The steps in their order, whether in sequences or alone; none of null.
WordsJson steps_in(const WordsJson& step, const char* member) {
  WordsJson steps = WordsJson::array();
  const bool is_sequence = step.is_object() && step.contains("type") && step["type"] == "Sequence";
  if (!is_sequence && !step.is_null()) steps.push_back(spelled_out(step));
  if (is_sequence && step.contains(member))
    for (const WordsJson& part : step[member])
      for (WordsJson& inner : steps_in(part, member)) steps.push_back(std::move(inner));
  return steps;
}

WordsJson unordered(const nlohmann::ordered_json& json) { return WordsJson::parse(json.dump()); }

WordsJson steps_of_way(const PreTokenizer& pre) {
  return steps_in(unordered(words_of(pre)), "pretokenizers");
}

template <class Same>
const PreTokenizer* find_way(const Same& same) {
  const auto found = std::ranges::find_if(pre_tokenizers(), same);
  return found == pre_tokenizers().end() ? nullptr : &*found;
}

}  // namespace

const PreTokenizer* match_pre_tokenizer(const WordsJson& words, const WordsJson& normalizer,
                                        bool ignore_merges) {
  const WordsJson steps = steps_in(words, "pretokenizers"), normal = steps_in(normalizer, "normalizers");
  const auto same = [&](const PreTokenizer& pre) {
    return pre.ignore_merges == ignore_merges && steps_of_way(pre) == steps &&
           steps_in(unordered(normalizer_of(pre)), "normalizers") == normal;
  };
  return find_way(same);
}

const PreTokenizer* match_words(const WordsJson& words) {
  const WordsJson steps = steps_in(words, "pretokenizers");
  return find_way([&](const PreTokenizer& pre) { return steps_of_way(pre) == steps; });
}

}  // namespace crumb
