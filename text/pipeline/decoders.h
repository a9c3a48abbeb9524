// Tokens back to text: the decoders of a tokenizer.json, each a stage through which tokens pass one by one. A stage holds
// back what later tokens may still change, and nothing else; the text of all ids is what has come out when it is finished.
//
//   Sequence Fuse ByteLevel Metaspace ByteFallback Replace Strip BPEDecoder WordPiece
//
// Without a decoder tokens are words, with a space between them. What is none of these is refused by its name and place.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "text/pipeline/json_place.h"

namespace crumb::text {

/// Takes tokens, each as any number of parts and its end.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  /// A part of a token: whole characters of UTF-8.
  virtual void add(std::string_view part) = 0;
  virtual void end_token() = 0;
  /// No token follows. Called once.
  virtual void finish() = 0;
};

/// A new stage (or stages) in front of the given one.
using Decoder = std::function<std::unique_ptr<TokenSink>(std::unique_ptr<TokenSink> next)>;

Decoder read_decoder(const JsonPlace& place);

}  // namespace crumb::text
