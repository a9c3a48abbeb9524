// Byte-level BPE of a folder that has vocab.json and merges.txt and no tokenizer.json: folders of GPT-2, of
// RoBERTa, of Phi and of Qwen from before there was one. How words are split is the tokenizer class's, as
// transformers 5 builds it:
//
//   GPT2Tokenizer, CodeGenTokenizer   GPT-2's words; tokens around a text by add_bos_token and add_eos_token
//   RobertaTokenizer, BartTokenizer,  GPT-2's words; cls_token (<s>) before, sep_token (</s>) behind
//   LongformerTokenizer
//   Qwen2Tokenizer                    Qwen 2's words behind NFC; tokens around a text as GPT-2's
//
// (each with "Fast" too). Without tokenizer_class the model_type of config.json says the class.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/declared_tokens.h"
#include "text/subword/token_table.h"
#include "text/tokenizer.h"

namespace crumb::text {

struct VocabAndMerges {
  TokenTable tokens;
  std::vector<std::pair<std::string, std::string>> merges;  ///< in the order of their ranks
  nlohmann::json steps;            ///< normalizer, pre_tokenizer and decoder as in a tokenizer.json
  UsualTokens usual;               ///< the class's special tokens, where no file names others
  bool has_plain_special = false;  ///< special tokens take no white space, whatever files say (Qwen 2's)
  std::optional<std::string> bos, eos;
  /// Texts of the tokens that are around every text; nothing where add_bos_token and add_eos_token say it.
  std::optional<std::pair<std::string, std::string>> around;

  /// Whether the folder (with '/' at the end, or empty) has both files.
  static bool is_there(const ReadFile& read, const std::string& folder);

  /// Precondition: is_there(). Throws Error, which names the file, the key or line, and what is not
  /// supported.
  static VocabAndMerges read(const ReadFile& read, const std::string& folder);
};

/// The pairs of a merges.txt: one a line, parted by one space, in the order of their ranks; lines that begin
/// with "#version" are none. A Failure, which names the line, where a line is no pair.
Result<std::vector<std::pair<std::string, std::string>>> parse_merges(std::string_view text);

}  // namespace crumb::text
