// SentencePiece's .model files: a ModelProto in Protobuf's wire format (sentencepiece_model.proto). These
// fields are read:
//
//   1  pieces, repeated: 1 piece, 2 score (float), 3 type
//   2  trainer_spec: 3 model_type, 24 treat_whitespace_as_suffix, 35 byte_fallback, 40 to 43 the ids unk,
//      bos, eos, pad
//   3  normalizer_spec: 2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces, 5
//      escape_whitespaces
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/pipeline/chars_map.h"

namespace crumb::text {

struct SentencePieceModel {
  enum class Type : std::uint8_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  enum class Kind : std::uint8_t { kUnigram = 1, kBpe, kWord, kCharacter };

  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::kNormal;
  };

  std::vector<Piece> pieces;  ///< an index is an id
  Kind kind = Kind::kUnigram;
  bool byte_fallback = false;
  std::int32_t unknown = 0, bos = 1, eos = 2;
  CharsMap characters;
  bool adds_prefix = true;    ///< a space before every text
  bool strips_spaces = true;  ///< strips spaces at both ends, and all but one of several in a row
  bool marks_spaces = true;   ///< a space is U+2581

  /// A Failure where the bytes are no such file, or where its model or settings are not supported (kinds
  /// other than Unigram and BPE, spaces behind words); it names them.
  static Result<SentencePieceModel> parse(std::string_view bytes);

  /// The text as pieces are written, without the space before it. Precondition: it is UTF-8.
  std::string normalize(std::string_view text) const;

  /// For BPE: the pairs of normal pieces that make another one, in the order in which SentencePiece merges
  /// them: the pair that makes the piece of the greatest score first.
  std::vector<std::pair<std::string, std::string>> merges() const;
};

}  // namespace crumb::text
