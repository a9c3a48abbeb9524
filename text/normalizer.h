// BERT's text normalisation and splitting into words ("BertNormalizer" and "BertPreTokenizer" of Hugging
// Face).
//
// normalize(), in this order:
//   1. clean_text: drop NUL, U+FFFD and control characters (is_control); every white space becomes a space
//   2. handle_chinese_chars: a space on both sides of every is_cjk character
//   3. strip_accents: NFD, then drop category Mn
//   4. lowercase
// split_words(): pieces between white space; every punctuation character is a word of its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crumb::text {

struct NormalizerOptions {
  bool lowercase_first = false;  ///< before everything else: sentence_bert_config.json's do_lower_case
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};

std::u32string normalize(std::u32string_view text, const NormalizerOptions& options);

/// Views into `text`, none of them empty.
std::vector<std::u32string_view> split_words(std::u32string_view text);

}  // namespace crumb::text
