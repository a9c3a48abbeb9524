// How models that were trained with fairseq number the pieces of their SentencePiece model: tokens of their
// own come first, and the mask behind all pieces.
//
//   XLM-RoBERTa   <s> <pad> </s> <unk>, the pieces from the fourth on, <mask>
//   CamemBERT     <s>NOTUSED <pad> </s>NOTUSED <unk> <unk>NOTUSED, the pieces from the second on, <mask>
//
// Both put <s> before a text and </s> behind it.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "text/sentencepiece/model_file.h"
#include "text/tokenizer.h"

namespace crumb::text {

enum class FairseqNumbers : std::uint8_t { kXlmRoberta, kCamembert };

/// By tokenizer_class of tokenizer_config.json, else by model_type of config.json, both in `folder`, which
/// ends with '/' or is empty. Nothing for all other models.
std::optional<FairseqNumbers> fairseq_numbers(const ReadFile& read, const std::string& folder);

/// Numbers the pieces anew, with the new unknown, bos and eos. A Failure where the model does not begin with
/// the tokens `unk`, `s` and `/s` in angle brackets, or has a piece named as one of the new tokens.
Status number_as_fairseq(SentencePieceModel& model, FairseqNumbers numbers);

}  // namespace crumb::text
