// The steps of a tokenizer.json before and after its model, each read from its description. Other steps are
// refused, with their name and where they are in the file.
//
//   normalizers       Sequence Prepend Replace NFC NFD NFKC NFKD Lowercase StripAccents Strip ByteLevel
//                     BertNormalizer Precompiled
//   pre-tokenizers    Sequence ByteLevel Split Digits Metaspace Punctuation Whitespace WhitespaceSplit
//                     BertPreTokenizer
//   post-processors   Sequence TemplateProcessing RobertaProcessing BertProcessing ByteLevel
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "text/pair_frame.h"
#include "text/pipeline/json_place.h"
#include "text/regex/pattern.h"
#include "text/wordpiece.h"

namespace crumb::text {

using Normalizer = std::function<std::string(std::string)>;

/// A part of the text that the model tokenizes alone.
struct Part {
  std::string text;
  bool first = false;  ///< it begins where the whole text began
};
using PreTokenizer = std::function<std::vector<Part>(std::vector<Part>)>;

/// The tokens around a text's ids.
struct Frame {
  std::vector<TokenId> before, after;
};

Normalizer read_normalizer(const JsonPlace& place);
PreTokenizer read_pre_tokenizer(const JsonPlace& place);
Frame read_frame(const JsonPlace& place);

/// What a post-processor says of two texts, or why pairs cannot be tokenized: what the file has there is not
/// supported, which only those must know who have pairs.
struct PairTemplate {
  std::optional<PairFrame> frame = PairFrame();
  std::string why;
};
PairTemplate read_pair_template(const JsonPlace& place);

/// {"String": ...} or {"Regex": ...}.
Pattern read_pattern(const JsonPlace& place);

/// Metaspace's settings, which its pre-tokenizer and its decoder share.
struct Metaspace {
  enum class Prepend { kAlways, kFirst, kNever };
  std::string replacement = "\xE2\x96\x81";
  Prepend prepend = Prepend::kAlways;
  bool split = true;
  static Metaspace read(const JsonPlace& place);
};

}  // namespace crumb::text
