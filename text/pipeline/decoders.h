// Tokens back to text: the decoders of a tokenizer.json, each a stage that tokens pass one by one. A stage
// holds back what later tokens may still change, and nothing else; the text of all ids is complete when the
// stage is finished.
//
//   Sequence Fuse ByteLevel Metaspace ByteFallback Replace Strip BPEDecoder WordPiece
//
// Without a decoder tokens are words, with a space between them. Other decoders are refused, with their name
// and where they are in the file.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "text/pipeline/json_place.h"

namespace crumb::text {

/// Takes tokens, each as any number of parts and an end.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  /// A part of a token: whole characters of UTF-8.
  virtual void add(std::string_view part) = 0;
  virtual void end_token() = 0;
  /// No token follows. Called once.
  virtual void finish() = 0;
};

/// Makes a stage (or several) in front of the given one.
using Decoder = std::function<std::unique_ptr<TokenSink>(std::unique_ptr<TokenSink> next)>;

Decoder read_decoder(const JsonPlace& place);

}  // namespace crumb::text
